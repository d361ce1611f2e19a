#include "launcher/os/port_holder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

absl::StatusOr<UniqueFd> BindSocket(const sockaddr* address, socklen_t size) {
  UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  if (!fd.valid() || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      (address->sa_family == AF_INET6 &&
       ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) ||
      ::bind(fd.get(), address, size) != 0) {
    return absl::ErrnoToStatus(errno, "cannot take a TCP port for MASTER_PORT");
  }
  return fd;
}

absl::StatusOr<UniqueFd> BindIpv6(const in6_addr& address, int port) {
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = address;
  any.sin6_port = htons(static_cast<in_port_t>(port));
  return BindSocket(reinterpret_cast<const sockaddr*>(&any), sizeof(any));
}

absl::StatusOr<UniqueFd> BindIpv4(in_addr address, int port) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr = address;
  any.sin_port = htons(static_cast<in_port_t>(port));
  return BindSocket(reinterpret_cast<const sockaddr*>(&any), sizeof(any));
}

absl::StatusOr<UniqueFd> BindAddress(const std::string& address, int port) {
  if (address.empty()) {
    absl::StatusOr<UniqueFd> both = BindIpv6(in6addr_any, port);
    return both.ok() ? std::move(both) : BindIpv4(in_addr{INADDR_ANY}, port);
  }
  in6_addr ipv6{};
  if (::inet_pton(AF_INET6, address.c_str(), &ipv6) == 1) return BindIpv6(ipv6, port);
  in_addr ipv4{};
  if (::inet_pton(AF_INET, address.c_str(), &ipv4) == 1) return BindIpv4(ipv4, port);
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address, "\" is not a numeric IPv4 or IPv6 address"));
}

}  // namespace

absl::StatusOr<PortHolder> PortHolder::Bind(const std::string& address, int port) {
  absl::StatusOr<UniqueFd> fd = BindAddress(address, port);
  if (!fd.ok()) return fd.status();
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (::getsockname(fd->get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return absl::ErrnoToStatus(errno, "cannot determine the TCP port that was bound");
  }
  const in_port_t bound_port = bound.ss_family == AF_INET6
                                   ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                   : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port;
  return PortHolder(*std::move(fd), ntohs(bound_port));
}

}  // namespace ddprun
