// The whole of a terminal, line by line. Of what is to be shown only the lines that changed are
// sent: over a slow line that is the difference between a screen that follows and one that does
// not.
//
// All escape sequences used here work in xterm, the Linux console, screen and tmux.
//
// Pure; owned by one thread.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_SCREEN_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_SCREEN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ddprun::top {

enum class Style { kPlain, kTitle, kHead, kSelected, kGood, kBusy, kBad, kQuiet };

struct Line {
  std::string text;  // UTF-8 without control characters
  Style style = Style::kPlain;

  bool operator==(const Line&) const = default;
};

struct Size {
  int rows = 24;
  int columns = 80;

  bool operator==(const Size&) const = default;
};

class Screen {
 public:
  // Takes the terminal (its other screen, without cursor and wrapping), and gives it back.
  static absl::string_view Begin();
  static absl::string_view End();

  // The bytes that make the terminal show these lines. Lines that do not fit are left out. Empty
  // where the terminal shows them already.
  std::string Show(const std::vector<Line>& lines, Size size);

  // Somebody else has written on the terminal: the next Show draws all.
  void Forget() { shown_.clear(); }

 private:
  Size size_;
  std::vector<Line> shown_;  // one for each row; empty: nothing is known of what is there
};

// The first `columns` characters, and '…' in place of the last one where more would follow.
std::string Cut(absl::string_view text, std::size_t columns);

// The same, with spaces up to `columns`.
std::string Fill(absl::string_view text, std::size_t columns);

// How many characters: bytes of UTF-8 that begin one.
std::size_t Width(absl::string_view text);

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_SCREEN_H_
