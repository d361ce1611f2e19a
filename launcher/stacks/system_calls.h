// The system call that a thread waits in, from /proc/PID/task/TID/syscall. Pure.
#ifndef DDPRUN_LAUNCHER_STACKS_SYSTEM_CALLS_H_
#define DDPRUN_LAUNCHER_STACKS_SYSTEM_CALLS_H_

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::stacks {

struct WaitingCall {
  std::string name;     // "read"; "system call 451" where it is none that programs often wait in
  int descriptor = -1;  // its first argument, where that is a file descriptor
};

// nullopt: it runs, or waits in none ("running", "-1 0x... 0x...").
std::optional<WaitingCall> ParseWaitingCall(std::string_view text);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_SYSTEM_CALLS_H_
