#include "rendezvous/service/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/service/errno_text.h"
#include "rendezvous/wire/thin_stream.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

constexpr int kBacklog = 4096;  // the kernel limits it to net.core.somaxconn
constexpr int kRetryMs = 50;    // after a failed accept()
constexpr std::chrono::seconds kBetweenLogs(10);

void SetPort(sockaddr_storage* name, int port) {
  const in_port_t value = htons(static_cast<std::uint16_t>(port));
  if (name->ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(name)->sin6_port = value;
  } else {
    reinterpret_cast<sockaddr_in*>(name)->sin_port = value;
  }
}

int PortOf(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(name).sin_port);
}

bool IsWildcard(const addrinfo& candidate) {
  if (candidate.ai_family == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<sockaddr_in6*>(candidate.ai_addr)->sin6_addr);
  }
  return reinterpret_cast<sockaddr_in*>(candidate.ai_addr)->sin_addr.s_addr == INADDR_ANY;
}

// Returns a listening socket. If it is not valid, `*error` is the errno.
UniqueFd Listen(const sockaddr_storage& name, socklen_t size, bool both_families, int* error) {
  UniqueFd listener(socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) {
    *error = errno;
    return listener;
  }
  const int fd = listener.get();
  const int on = 1;
  const int v6_only = both_families ? 0 : 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // Connections inherit these.
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  SendAgainSteadily(fd);
  if (name.ss_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  }
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), size) != 0 || listen(fd, kBacklog) != 0) {
    *error = errno;
    listener.reset();
  }
  return listener;
}

// The same for a Unix socket. `name` has the path.
UniqueFd ListenUnix(const sockaddr_un& name, int* error) {
  const auto* const generic = reinterpret_cast<const sockaddr*>(&name);
  {
    const UniqueFd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(client.get(), generic, sizeof name) == 0) {
      *error = EADDRINUSE;
      return UniqueFd();
    }
    struct stat status;
    // A stale socket. Not another file, which also refuses.
    if (errno == ECONNREFUSED && stat(name.sun_path, &status) == 0 && S_ISSOCK(status.st_mode)) {
      unlink(name.sun_path);
    }
  }
  UniqueFd server(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!server.valid() || bind(server.get(), generic, sizeof name) != 0) {
    *error = errno;
    return UniqueFd();
  }
  if (chmod(name.sun_path, 0600) != 0 || listen(server.get(), kBacklog) != 0) {
    *error = errno;
    unlink(name.sun_path);
    return UniqueFd();
  }
  return server;
}

UniqueFd ListenOnEverything(int port, int* error) {
  sockaddr_storage name{};
  reinterpret_cast<sockaddr_in6&>(name) = {};
  name.ss_family = AF_INET6;
  SetPort(&name, port);
  UniqueFd listener = Listen(name, sizeof(sockaddr_in6), true, error);
  if (listener.valid() || *error == EADDRINUSE) return listener;
  name = {};  // for a host without IPv6
  name.ss_family = AF_INET;
  SetPort(&name, port);
  return Listen(name, sizeof(sockaddr_in), false, error);
}

}  // namespace

struct Acceptor::State {
  ~State() { CloseListeners(); }
  void CloseListeners() {
    if (!path.empty() && !listeners.empty()) unlink(path.c_str());
    listeners.clear();
  }
  // Accepts all waiting connections. False: some of them cannot be accepted now.
  bool AcceptAll(int listener);
  void Refused(const std::string& why);
  void Failed(const std::string& why);

  std::vector<UniqueFd> listeners;
  std::string path;                                       // of a Unix socket, else empty
  UniqueFd stop{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  // readable: the thread must end
  const DescriptorGuard* guard = nullptr;
  Take take;
  Log log;
  std::atomic<std::uint64_t> refused{0};
  std::uint64_t logged = 0;  // of refused; used by the thread only, like the next two
  std::optional<std::chrono::steady_clock::time_point> logged_at;
  std::optional<std::chrono::steady_clock::time_point> failure_logged_at;
};

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Bind(const ListenAddress& address) {
  return address.is_unix() ? BindUnix(address.path) : BindTcp(address);
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::BindUnix(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) {
    return absl::UnavailableError(absl::StrCat("the path has ", path.size(), " bytes, at most ",
                                               sizeof name.sun_path - 1, " are possible"));
  }
  path.copy(name.sun_path, path.size());
  auto state = std::make_unique<State>();
  if (!state->stop.valid()) return absl::UnavailableError(ErrnoText(errno));
  int error = 0;
  UniqueFd listener = ListenUnix(name, &error);
  if (error == EADDRINUSE) return absl::AlreadyExistsError(ErrnoText(EADDRINUSE));
  if (!listener.valid()) return absl::UnavailableError(ErrnoText(error));
  state->listeners.push_back(std::move(listener));
  state->path = path;
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(state), 0));
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::BindTcp(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failure =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (failure != 0) return absl::UnavailableError(absl::AsciiStrToLower(gai_strerror(failure)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  auto state = std::make_unique<State>();
  if (!state->stop.valid()) return absl::UnavailableError(ErrnoText(errno));
  int port = address.port;
  int error = EADDRNOTAVAIL;
  // A name may have several addresses. An address that this host lacks is skipped (IPv6 may be
  // off). An address that is taken is an error: otherwise two servers would share the name, each
  // with some of the clients.
  for (const addrinfo* candidate = found; candidate != nullptr; candidate = candidate->ai_next) {
    const bool wildcard = IsWildcard(*candidate);
    UniqueFd listener;
    if (wildcard) {
      listener = ListenOnEverything(port, &error);
    } else {
      sockaddr_storage name{};
      std::memcpy(&name, candidate->ai_addr, candidate->ai_addrlen);
      SetPort(&name, port);
      listener = Listen(name, candidate->ai_addrlen, false, &error);
    }
    if (!listener.valid() && error == EADDRINUSE) {
      return absl::AlreadyExistsError(ErrnoText(EADDRINUSE));
    }
    if (!listener.valid()) continue;
    if (port == 0) port = PortOf(listener.get());
    state->listeners.push_back(std::move(listener));
    if (wildcard) break;
  }
  if (state->listeners.empty() && error == EACCES) {
    return absl::PermissionDeniedError(ErrnoText(error));
  }
  if (state->listeners.empty()) return absl::UnavailableError(ErrnoText(error));
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(state), port));
}

Acceptor::Acceptor(std::unique_ptr<State> state, int port)
    : state_(std::move(state)), port_(port) {}

Acceptor::~Acceptor() { Stop(); }

int Acceptor::listener() const { return state_->listeners.front().get(); }

void Acceptor::Start(const DescriptorGuard* guard, Take take, Log log) {
  state_->guard = guard;
  state_->take = std::move(take);
  state_->log = std::move(log);
  thread_ = std::thread([state = state_.get()] {
    std::vector<pollfd> watched;
    for (const UniqueFd& one : state->listeners) watched.push_back({one.get(), POLLIN, 0});
    watched.push_back({state->stop.get(), POLLIN, 0});
    for (;;) {
      if (poll(watched.data(), watched.size(), -1) < 0) continue;  // EINTR
      if (watched.back().revents != 0) return;
      bool room = true;
      for (std::size_t i = 0; i + 1 < watched.size(); ++i) {
        if (watched[i].revents != 0 && !state->AcceptAll(watched[i].fd)) room = false;
      }
      // Does not try again at once. Waiting connections stay in the kernel.
      if (!room) poll(&watched.back(), 1, kRetryMs);
    }
  });
}

void Acceptor::Stop() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    (void)!write(state_->stop.get(), &one, sizeof one);
    thread_.join();
  }
  state_->CloseListeners();
}

std::uint64_t Acceptor::refused() const { return state_->refused; }

bool Acceptor::State::AcceptAll(int listener) {
  for (;;) {
    UniqueFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) {
      switch (errno) {
        case EAGAIN:
          return true;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
          Refused(ErrnoText(errno));
          return false;
        case EINTR:
        case ECONNABORTED:  // the client closed the connection before it was accepted
          continue;
        default:  // the network failed, or the listener is broken, so that every try fails
          Failed(ErrnoText(errno));
          return false;
      }
    }
    const int number = connection.get();
    if (guard->HasRoomFor(number)) {
      take(listener, std::move(connection));
      continue;
    }
    const linger reset{1, 0};  // no TIME_WAIT: the client may connect again at once
    setsockopt(number, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    connection.reset();
    Refused(
        absl::StrCat("descriptor ", number, " is above the limit of ", guard->connection_limit()));
  }
}

void Acceptor::State::Refused(const std::string& why) {
  ++refused;
  const auto now = std::chrono::steady_clock::now();
  if (logged_at && now - *logged_at < kBetweenLogs) return;
  log(absl::StrCat("refused ", refused - logged, " connections, for want of descriptors (", why,
                   "): raise the limit (ulimit -Hn, LimitNOFILE= of the unit)"));
  logged = refused;
  logged_at = now;
}

void Acceptor::State::Failed(const std::string& why) {
  const auto now = std::chrono::steady_clock::now();
  if (failure_logged_at && now - *failure_logged_at < kBetweenLogs) return;
  log(absl::StrCat("cannot accept a connection: ", why, "; trying again"));
  failure_logged_at = now;
}

}  // namespace ddprun
