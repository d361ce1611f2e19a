// The library's own TCP functions.
#ifndef DDPRUN_WORKER_SRC_BASE_TCP_H_
#define DDPRUN_WORKER_SRC_BASE_TCP_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {

// Blocks until something accepts connections at host:port. Retries every few milliseconds, because
// libtorch's client sleeps a whole second if rank 0 listens a moment later than it connects.
//
// Throws ddp::CollectiveError with address, waited time and the last error of the system after
// `timeout`. If the host refuses the connection, it is reachable and rank 0 has not come yet: then
// the limit is `refused`, if that is longer.
void WaitForListener(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout,
                     std::chrono::milliseconds refused = {});

// The numeric address of this machine from which packets to `host` leave; sends nothing. Throws
// ddp::ConfigError if `host` cannot be resolved or has no route.
std::string LocalAddressTowards(const std::string& host);

// Throws std::system_error with errno.
[[noreturn]] void ThrowErrno(const char* what);

// Listens at every address of this host, at any free port, returned in `*port`. Sockets here are
// non-blocking. Throws std::system_error.
ddprun::UniqueFd ListenEverywhere(int* port);

// Connects to `port` of `host`. Tries each of its addresses for at most 2 s, and again until
// `patience` is over if the network does not answer; a refusal is final. Throws std::runtime_error
// with host and port.
ddprun::UniqueFd ConnectTo(const std::string& host, std::string_view port,
                           std::chrono::milliseconds patience = std::chrono::milliseconds(0));

// Makes the kernel notice within 11 s that a peer's host has lost power or network, even on an idle
// connection. While data is unacknowledged, the kernel uses its retransmission limit instead, up to
// 15 minutes.
void KeepAlive(int socket);

// A random token of 128 bits, in hex; a listener uses it to recognize its peers. Throws
// std::system_error.
std::string MakeToken();

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_TCP_H_
