// TCP functions for the library's own connections.
#ifndef DDPRUN_WORKER_SRC_BASE_TCP_H_
#define DDPRUN_WORKER_SRC_BASE_TCP_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {

// Blocks until a process accepts connections at host:port. Retries every few milliseconds, because
// libtorch's client sleeps a whole second if rank 0 begins to listen just after the client's first
// attempt.
//
// After `timeout` throws ddp::CollectiveError with the address, the waited time and the last error
// of the system. If the host refuses the connection, the host is reachable, but rank 0 does not
// listen yet. Then the limit is `refused`, if that is longer. Throws CollectiveError soon
// after `given_up` returns true.
void WaitForListener(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout,
                     std::chrono::milliseconds refused = {},
                     const std::function<bool()>& given_up = nullptr);

// The numeric address of this machine from which packets to `host` would leave. Sends nothing to
// `host`. Throws ddp::ConfigError if `host` cannot be resolved or has no route.
std::string LocalAddressTowards(const std::string& host);

// Throws std::system_error with errno.
[[noreturn]] void ThrowErrno(const char* what);

// Listens at every address of this host, at any free port, and sets `*port`. All sockets of this
// file are non-blocking. Throws std::system_error.
ddprun::UniqueFd ListenEverywhere(int* port);

// Connects to `port` of `host`. Tries each address of the host for at most 2 s. If the network does
// not answer or has no route, tries again until `patience` is over; if the host refuses, fails at
// once. Throws std::runtime_error with host and port.
ddprun::UniqueFd ConnectTo(const std::string& host, std::string_view port,
                           std::chrono::milliseconds patience = std::chrono::milliseconds(0));

// Makes the kernel notice within 11 s that the peer's host has lost power or network, even on an
// idle connection. While sent data is not acknowledged, the kernel's limit for retransmission
// applies instead: about 15 minutes.
void KeepAlive(int socket);

// A random token of 128 bits, in hex. A listener recognizes its peers by the token. Throws
// std::system_error.
std::string MakeToken();

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_TCP_H_
