// The system call that a thread waits in, from /proc/PID/task/TID/syscall, and the peer of its
// socket. Pure.
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

// "10.0.0.1:29500", "[fe80::1]:29500", of an address of /proc/PID/net/tcp or tcp6. "" where it is
// none, or has port 0.
std::string TcpAddress(std::string_view text);

// The peer of the TCP socket `inode` ("123") in `table`, the text of /proc/PID/net/tcp or tcp6:
// "10.0.0.1:29500", "[fe80::1]:29500". "" where it has none.
std::string PeerInTable(std::string_view table, std::string_view inode);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_SYSTEM_CALLS_H_
