#include "rendezvous/service/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ddprun {
namespace {

std::string ErrnoText(int error) {
  return absl::AsciiStrToLower(std::generic_category().message(error));
}

// A socket that is closed when it goes out of scope.
class Socket {
 public:
  explicit Socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Returns 0 or the errno.
int TryBind(const addrinfo& candidate) {
  const Socket socket(candidate.ai_family);
  if (socket.fd() < 0) return errno;
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // as gRPC does
  if (candidate.ai_family == AF_INET6) {
    setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  return bind(socket.fd(), candidate.ai_addr, candidate.ai_addrlen) == 0 ? 0 : errno;
}

absl::Status TryListenTcp(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failure =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (failure != 0) return absl::UnavailableError(absl::AsciiStrToLower(gai_strerror(failure)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  // A name may stand for several addresses, of which this host need not have all (IPv6 may be off);
  // but one that is taken would let two servers share the name, each with some of the clients.
  int error = 0;
  bool bound = false;
  for (const addrinfo* candidate = found; candidate != nullptr; candidate = candidate->ai_next) {
    const int result = TryBind(*candidate);
    if (result == EADDRINUSE) return absl::AlreadyExistsError(ErrnoText(result));
    if (result == 0) bound = true;
    if (error == 0) error = result;
  }
  return bound ? absl::OkStatus() : absl::UnavailableError(ErrnoText(error));
}

absl::Status TryListenUnix(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) {
    return absl::UnavailableError(absl::StrCat("the path has ", path.size(), " bytes, at most ",
                                               sizeof name.sun_path - 1, " are possible"));
  }
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&name);
  // gRPC would take the path away from a process that listens on it.
  const Socket client(AF_UNIX);
  if (connect(client.fd(), generic, sizeof name) == 0) {
    return absl::AlreadyExistsError(ErrnoText(EADDRINUSE));
  }
  if (errno == ECONNREFUSED) return absl::OkStatus();  // a stale file, which gRPC replaces
  const Socket server(AF_UNIX);
  if (bind(server.fd(), generic, sizeof name) != 0) return absl::UnavailableError(ErrnoText(errno));
  unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  ListenAddress address;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    address.path = std::string(rest);
    if (address.path.empty()) return absl::InvalidArgumentError("unix: has no path");
    return address;
  }
  const auto malformed = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not HOST:PORT, [IPV6]:PORT or unix:/path"));
  };
  const std::size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) return malformed();
  if (!absl::SimpleAtoi(rest.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > 65535) {
    return malformed();
  }
  absl::string_view host = rest.substr(0, colon);
  const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  if (host.empty() || (!bracketed && host.find_first_of("[]:") != absl::string_view::npos)) {
    return malformed();
  }
  address.host = std::string(host);
  return address;
}

absl::Status TryListen(const ListenAddress& address) {
  return address.is_unix() ? TryListenUnix(address.path) : TryListenTcp(address);
}

}  // namespace ddprun
