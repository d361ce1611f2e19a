// TCP peers of a process that do not answer: the cable is cut, the machine is gone, or a firewall
// drops the packets. While it is so the process only waits, so no stack shows it.
#ifndef DDPRUN_LAUNCHER_STACKS_UNANSWERED_PEERS_H_
#define DDPRUN_LAUNCHER_STACKS_UNANSWERED_PEERS_H_

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::stacks {

struct UnansweredPeer {
  std::string address;  // "10.0.0.7:41234"
  int tries = 0;  // how often the kernel has sent the same again, or asked whether it is there

  friend auto operator<=>(const UnansweredPeer&, const UnansweredPeer&) = default;
};

// At most `most` of a process, by address. Reads procfs, which never waits for a disk. Any thread.
// Empty, too, where ddprun may not see the descriptors of the process.
std::vector<UnansweredPeer> UnansweredPeersOf(pid_t pid, std::size_t most);

// Those of the sockets `inodes` in `table`, the text of /proc/PID/net/tcp or tcp6. Data that is
// merely on its way does not count: the kernel sends it again after some 200 ms. Pure.
std::vector<UnansweredPeer> UnansweredInTable(std::string_view table,
                                              const std::set<std::string>& inodes);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_UNANSWERED_PEERS_H_
