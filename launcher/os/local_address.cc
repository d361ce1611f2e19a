#include "launcher/os/local_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "launcher/os/unique_fd.h"

namespace ddprun {
namespace {

// Connecting a UDP socket chooses a route and a source address, and sends nothing. 0 or an errno.
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
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  int last_error = 0;
  for (const addrinfo* target = found; target != nullptr; target = target->ai_next) {
    std::string address;
    last_error = SourceAddress(*target, &address);
    if (last_error == 0) return address;
  }
  return absl::UnavailableError(
      absl::StrCat("no route to ", host, ": ", std::strerror(last_error)));
}

std::string HostName() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace ddprun
