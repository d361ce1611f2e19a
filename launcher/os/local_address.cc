#include "launcher/os/local_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
using InterfaceList = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

absl::StatusOr<AddressList> Resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) {
    const char* const reason = error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error);
    return absl::NotFoundError(absl::StrCat("cannot resolve host ", host, ": ", reason));
  }
  return AddressList(found, &::freeaddrinfo);
}

InterfaceList Interfaces() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) found = nullptr;
  return InterfaceList(found, &::freeifaddrs);
}

// "10.0.0.1"; empty for families other than IPv4 and IPv6. A link-local IPv6 address includes its
// zone.
std::string Numeric(const sockaddr* address) {
  const bool ipv4 = address->sa_family == AF_INET;
  if (!ipv4 && address->sa_family != AF_INET6) return "";
  const socklen_t size = ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  char text[NI_MAXHOST];
  const int error = ::getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

// If no process listens, the kernel may choose the requested port as the source port. Then the
// socket is connected to itself.
bool IsConnectedToItself(int fd) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_size = sizeof(own);
  socklen_t peer_size = sizeof(peer);
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
         own_size == peer_size && std::memcmp(&own, &peer, own_size) == 0;
}

// Connecting a UDP socket chooses route and source address without sending. Returns 0 or an errno.
int SourceAddress(const addrinfo& target, std::string* address) {
  const UniqueFd fd(::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  if (::connect(fd.get(), target.ai_addr, target.ai_addrlen) != 0) return errno;
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) return errno;
  char text[NI_MAXHOST];
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&local), size, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return EAFNOSUPPORT;
  }
  *address = text;
  return 0;
}

}  // namespace

absl::StatusOr<std::string> LocalAddressTowards(const std::string& host, std::uint16_t port) {
  const auto found = Resolve(host, port);
  if (!found.ok()) return found.status();
  int last_error = 0;
  for (const addrinfo* target = found->get(); target != nullptr; target = target->ai_next) {
    std::string address;
    last_error = SourceAddress(*target, &address);
    if (last_error == 0) return address;
  }
  return absl::UnavailableError(
      absl::StrCat("no route to ", host, ": ", std::strerror(last_error)));
}

absl::StatusOr<std::optional<std::string>> OwnAddress(const std::string& host) {
  const auto found = Resolve(host, 1);
  if (!found.ok()) return found.status();
  const InterfaceList interfaces = Interfaces();
  for (const addrinfo* target = found->get(); target != nullptr; target = target->ai_next) {
    const std::string address = Numeric(target->ai_addr);
    if (IsLoopback(address)) return address;  // all of 127.0.0.0/8 is this host
    for (const ifaddrs* own = interfaces.get(); own != nullptr; own = own->ifa_next) {
      if (own->ifa_addr != nullptr && Numeric(own->ifa_addr) == address) return address;
    }
  }
  return std::nullopt;
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

absl::StatusOr<UniqueFd> HoldOtherLoopback(const std::string& host, std::uint16_t port) {
  if (host != "127.0.0.1" && host != "::1") return UniqueFd();
  const char* const other = host == "::1" ? "127.0.0.1" : "::1";
  const auto found = Resolve(other, port);
  if (!found.ok()) return UniqueFd();  // this host has no IPv6
  const addrinfo& address = **found;
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return UniqueFd();
  if (::bind(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  if (errno != EADDRINUSE) return UniqueFd();
  return absl::AlreadyExistsError(absl::StrCat("another program has port ", port, " of ", other));
}

std::optional<std::string> OutsideAddress() {
  const InterfaceList interfaces = Interfaces();
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* own = interfaces.get(); own != nullptr; own = own->ifa_next) {
      if (own->ifa_addr == nullptr || own->ifa_addr->sa_family != family) continue;
      if ((own->ifa_flags & IFF_UP) == 0 || (own->ifa_flags & IFF_LOOPBACK) != 0) continue;
      std::string address = Numeric(own->ifa_addr);
      if (address.find('%') == std::string::npos)
        return address;  // not link-local: other hosts can use it
    }
  }
  return std::nullopt;
}

bool SomebodyListens(const std::string& address, std::uint16_t port) {
  const auto found = Resolve(address, port);
  if (!found.ok()) return false;
  const addrinfo& target = **found;
  const UniqueFd fd(::socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return false;
  if (::connect(fd.get(), target.ai_addr, target.ai_addrlen) == 0) {
    return !IsConnectedToItself(fd.get());
  }
  if (errno != EINPROGRESS) return false;
  pollfd ready{fd.get(), POLLOUT, 0};
  if (::poll(&ready, 1, 1000) != 1) return false;
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0 &&
         !IsConnectedToItself(fd.get());
}

std::string HostName() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace ddprun
