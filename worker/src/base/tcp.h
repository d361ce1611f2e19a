// What this library itself has to do with TCP.
#ifndef DDPRUN_WORKER_SRC_BASE_TCP_H_
#define DDPRUN_WORKER_SRC_BASE_TCP_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {

// Blocks until something accepts connections at host:port. It tries again every few milliseconds:
// libtorch's own client sleeps a whole second when rank 0 listens a moment later than it connects.
//
// Throws ddp::CollectiveError, with address, waited time and the system's last error, once
// `timeout` is over, or `refused`, if that is longer and the host refuses the connection: it can be
// reached, and rank 0 has not come yet.
void WaitForListener(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout,
                     std::chrono::milliseconds refused = {});

// The numeric address of this machine from which packets to `host` leave; nothing is sent.
// Throws ddp::ConfigError if `host` cannot be resolved or there is no route to it.
std::string LocalAddressTowards(const std::string& host);

// Throws std::system_error with errno.
[[noreturn]] void ThrowErrno(const char* what);

// Listens at every address of this host, at any port that is free: `*port`. Sockets here are
// non-blocking. Throws std::system_error.
ddprun::UniqueFd ListenEverywhere(int* port);

// A connection to `port` of `host`. Tries each of its addresses for at most 2 s, and again until
// `patience` is over where the network does not answer; a refusal is final. Throws
// std::runtime_error, with host and port.
ddprun::UniqueFd ConnectTo(const std::string& host, std::string_view port,
                           std::chrono::milliseconds patience = std::chrono::milliseconds(0));

// Has the kernel notice the end of a host that lost its power or its network, though nothing is
// said on the connection: after 11 s. (Where something is on its way there, the kernel goes by
// that, for up to 15 minutes.)
void KeepAlive(int socket);

// 128 bits that nobody else knows, in hex: what a listener wants to hear from who connects. Throws
// std::system_error.
std::string MakeToken();

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_TCP_H_
