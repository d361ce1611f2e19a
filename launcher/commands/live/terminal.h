// The terminal on stdin and stdout while a program has its whole screen: keys come one by one and
// are not shown. Puts everything back. On the main thread.
#ifndef DDPRUN_LAUNCHER_COMMANDS_LIVE_TERMINAL_H_
#define DDPRUN_LAUNCHER_COMMANDS_LIVE_TERMINAL_H_

#include <termios.h>

#include <string>

#include "absl/strings/string_view.h"
#include "launcher/text/top/screen.h"

namespace ddprun::top {

class Terminal {
 public:
  // Both are terminals.
  static bool IsOne();

  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Size size() const;

  // What has been typed. Waits for nothing that poll has announced. "": the terminal is gone.
  std::string Read();

  // Waits until the terminal has taken it. False: the terminal is gone.
  bool Write(absl::string_view text);

 private:
  termios before_{};
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_COMMANDS_LIVE_TERMINAL_H_
