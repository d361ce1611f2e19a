// The system call in which a thread waits, from /proc/PID/task/TID/syscall, and the peer of its
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
  std::string name;     // "read"; "system call 451" for a rarely seen one
  int descriptor = -1;  // the first argument, if that is a descriptor
};

// nullopt: the thread runs, or waits in no system call ("running", "-1 0x... 0x...").
std::optional<WaitingCall> ParseWaitingCall(std::string_view text);

// Converts an address of /proc/PID/net/tcp or tcp6 to "10.0.0.1:29500", "[fe80::1]:29500". "":
// malformed, or port 0.
std::string TcpAddress(std::string_view text);

// The peer of the TCP socket `inode` ("123") in `table`, the text of /proc/PID/net/tcp or tcp6:
// "10.0.0.1:29500", "[fe80::1]:29500". "": no peer.
std::string PeerInTable(std::string_view table, std::string_view inode);

// A TCP peer that does not answer: its cable is cut, it is down, or a firewall drops packets.
struct UnansweredPeer {
  std::string address;  // "10.0.0.7:41234"
  int tries = 0;        // number of retransmissions, or of keep-alive probes

  friend auto operator<=>(const UnansweredPeer&, const UnansweredPeer&) = default;
};

// The peers of the sockets `inodes` that do not answer, from `table`, the text of /proc/PID/net/tcp
// or tcp6. Data in flight counts only when the kernel has sent it again, after some 200 ms. Pure.
std::vector<UnansweredPeer> UnansweredInTable(std::string_view table,
                                              const std::set<std::string>& inodes);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_SYSTEM_CALLS_H_
