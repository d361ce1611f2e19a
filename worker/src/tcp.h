// Two questions about the network that libtorch does not answer well. No libtorch.
#ifndef DDPRUN_WORKER_SRC_TCP_H_
#define DDPRUN_WORKER_SRC_TCP_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace ddp::internal {

// Blocks until something accepts connections at host:port. It tries again every few milliseconds:
// libtorch's own client sleeps a whole second when rank 0 listens a moment later than it connects.
//
// Throws ddp::CollectiveError, with address, waited time and the system's last error, once
// `timeout` is over.
void WaitForListener(const std::string& host, std::uint16_t port,
                     std::chrono::milliseconds timeout);

// The numeric address of this machine from which packets to `host` leave; nothing is sent.
// Throws ddp::ConfigError if `host` cannot be resolved or there is no route to it.
std::string LocalAddressTowards(const std::string& host);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_TCP_H_
