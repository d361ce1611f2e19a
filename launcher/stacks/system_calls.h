// The system call that a thread waits in, from /proc/PID/task/TID/syscall, and the peer of its
// socket. Pure.
#ifndef DDPRUN_LAUNCHER_STACKS_SYSTEM_CALLS_H_
#define DDPRUN_LAUNCHER_STACKS_SYSTEM_CALLS_H_

#include <compare>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

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

// A TCP peer that does not answer: its cable is cut, it is gone, or a firewall drops the packets.
struct UnansweredPeer {
  std::string address;  // "10.0.0.7:41234"
  int tries = 0;  // how often the kernel has sent the same again, or asked whether it is there

  friend auto operator<=>(const UnansweredPeer&, const UnansweredPeer&) = default;
};

// Those of the sockets `inodes` in `table`, the text of /proc/PID/net/tcp or tcp6. Data that is
// merely on its way does not count: the kernel sends it again after some 200 ms. Pure.
std::vector<UnansweredPeer> UnansweredInTable(std::string_view table,
                                              const std::set<std::string>& inodes);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_SYSTEM_CALLS_H_
