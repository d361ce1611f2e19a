// The whole screen of a terminal. Sends only changed lines, so that the screen stays fast over a
// slow connection.
//
// All its escape sequences work in xterm, the Linux console, screen and tmux.
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
  // Begin switches the terminal to the alternate screen, without cursor and wrapping; End restores
  // it.
  static absl::string_view Begin();
  static absl::string_view End();

  // The bytes that make the terminal show these lines. Skips lines that do not fit. Empty: the
  // terminal already shows them.
  std::string Show(const std::vector<Line>& lines, Size size);

  // Call it when another program has written to the terminal: the next Show draws all lines.
  void Forget() { shown_.clear(); }

 private:
  Size size_;
  std::vector<Line> shown_;  // one per row; empty: the content is unknown
};

// The first `columns` characters; if the text is longer, the last one is '…'.
std::string Cut(absl::string_view text, std::size_t columns);

// The same, padded with spaces to `columns`.
std::string Fill(absl::string_view text, std::size_t columns);

// The number of characters: counts the UTF-8 bytes that begin a character.
std::size_t Width(absl::string_view text);

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_SCREEN_H_
