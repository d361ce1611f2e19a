// What is on the last row of a terminal, so that one progress bar and everybody's lines share it.
//
// A program that draws a bar ("\r 45%|███   |") expects to be alone on its row. Here the bar stays
// at the bottom, with its prefix, and lines scroll by above it: they erase the bar, take its row,
// and the bar is drawn anew below them. One bar is shown at a time, that of the lowest id (rank 0
// before the others); a bar that is not shown loses nothing: its last state comes as a line.
//
// A bar never wraps: what is longer than the terminal is wide is cut by the terminal itself. The
// escape sequences (erase to the end of the row, wrapping off and on) are those that xterm, the
// Linux console, screen and tmux have in common.
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
  static constexpr std::size_t kMaxBarBytes = 2048;  // of one bar; the rest is left out

  // Appends to `out` what shows `lines`, each with `prefix` in front. A newline is added where the
  // last one has none. Of a line with carriage returns, what they leave of it.
  void Lines(std::string_view prefix, std::string_view lines, std::string* out);

  // Appends to `out` what shows `text`, without newline or carriage return, as the bar of `id`.
  // Blank text takes the bar of this id away.
  void Bar(int id, std::string_view prefix, std::string_view text, std::string* out);

 private:
  void Erase(std::string* out) const;
  void Draw(std::string* out) const;

  int bar_id_ = 0;
  std::string bar_;  // with its prefix; empty: there is none
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_TERMINAL_SCREEN_H_
