// Terminal: the terminal on stdin and stdout, in full-screen mode. Keys come one by one, without
// echo. The destructor restores the terminal. Main thread only.
#ifndef DDPRUN_LAUNCHER_COMMANDS_LIVE_TERMINAL_H_
#define DDPRUN_LAUNCHER_COMMANDS_LIVE_TERMINAL_H_

#include <termios.h>

#include <string>

#include "absl/strings/string_view.h"
#include "launcher/text/top/screen.h"

namespace ddprun::top {

class Terminal {
 public:
  // True: stdin and stdout are terminals.
  static bool IsOne();

  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Size size() const;

  // Typed bytes. Does not block after poll() has reported input. "": the terminal is gone.
  std::string Read();

  // Blocks until the terminal has taken the text. False: the terminal is gone.
  bool Write(absl::string_view text);

 private:
  termios before_{};
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_COMMANDS_LIVE_TERMINAL_H_
