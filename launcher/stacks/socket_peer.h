// Whom a TCP socket of a process is connected to.
#ifndef DDPRUN_LAUNCHER_STACKS_SOCKET_PEER_H_
#define DDPRUN_LAUNCHER_STACKS_SOCKET_PEER_H_

#include <sys/types.h>

#include <string>
#include <string_view>

namespace ddprun::stacks {

// For `link`, which is what /proc/PID/fd/N links to: "socket to 10.0.0.1:29500", or "" where it is
// no TCP socket, has no peer, or cannot be looked up. Reads /proc/PID/net. Any thread.
std::string DescribeSocket(pid_t pid, std::string_view link);

// The pure part. The peer of the socket `inode` ("123") in `table`, the text of /proc/net/tcp or
// /proc/net/tcp6: "10.0.0.1:29500", "[fe80::1]:29500". "" where it has none.
std::string PeerInTable(std::string_view table, std::string_view inode);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_SOCKET_PEER_H_
