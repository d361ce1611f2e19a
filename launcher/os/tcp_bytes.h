// How many bytes TCP has carried, by socket. /proc/PID/io does not show them: it counts read() and
// write() on a socket, but not recv() and send().
#ifndef DDPRUN_LAUNCHER_OS_TCP_BYTES_H_
#define DDPRUN_LAUNCHER_OS_TCP_BYTES_H_

#include <cstdint>
#include <map>

namespace ddprun {

// By the socket's inode: the number of bytes that the peer has acknowledged, plus the number that
// the process has read from the socket.
using TcpBytes = std::map<std::uint64_t, std::int64_t>;

// All connections of this network namespace, at most 65,536, by sock_diag(7). Needs no permission.
// Empty: the kernel does not answer. Any thread, but not the agent's loop: at the first question
// the kernel may load a module from the disk.
TcpBytes ReadTcpBytes();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_TCP_BYTES_H_
