// The last row of a terminal, shared by one progress bar and the lines of all workers.
//
// A program that draws a bar ("\r 45%|███ |") expects to have the row for itself. Here the bar
// stays at the bottom with its prefix, and lines scroll above it. A line erases the bar and takes
// its row. Then the bar is drawn again below. Only the bar with the lowest id is shown (rank 0
// first). The last state of a hidden bar still appears as a line.
//
// A bar never wraps: the terminal itself cuts it at its width. The escape sequences (erase to the
// end of the row, wrapping off and on) work in xterm, the Linux console, screen and tmux.
//
// Pure; owned by ConsoleWriter, under its lock.
#ifndef DDPRUN_LAUNCHER_TEXT_TERMINAL_SCREEN_H_
#define DDPRUN_LAUNCHER_TEXT_TERMINAL_SCREEN_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

class TerminalScreen {
 public:
  static constexpr std::size_t kMaxBarBytes = 2048;  // per bar; the rest is cut

  // Appends to `out` the bytes that show `lines`, each with `prefix` in front. Adds a missing last
  // newline. A line with carriage returns is shown as they leave it.
  void Lines(std::string_view prefix, std::string_view lines, std::string* out);

  // Appends to `out` the bytes that show `text`, which has no newline or carriage return, as the
  // bar of `id`. Blank text removes the bar.
  void Bar(int id, std::string_view prefix, std::string_view text, std::string* out);

 private:
  void Erase(std::string* out) const;
  void Draw(std::string* out) const;

  int bar_id_ = 0;
  std::string bar_;  // with its prefix; empty: none
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_TERMINAL_SCREEN_H_
