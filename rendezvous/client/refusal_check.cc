#include "rendezvous/client/refusal_check.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

struct HostAndPort {
  std::string host;  // without brackets
  std::string port;
};

HostAndPort Split(const std::string& endpoint) {
  const std::size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos) return {endpoint, ""};
  HostAndPort result{endpoint.substr(0, colon), endpoint.substr(colon + 1)};
  std::string& host = result.host;
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return result;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses Resolve(const HostAndPort& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

// Whether nobody listens at the address: it refused, or it is ::1 on a host without that address or
// without IPv6.
bool IsRefusal(int error, const addrinfo& address) {
  if (error == ECONNREFUSED) return true;
  if (address.ai_family != AF_INET6) return false;
  const auto* const name = reinterpret_cast<const sockaddr_in6*>(address.ai_addr);
  return IN6_IS_ADDR_LOOPBACK(&name->sin6_addr) &&
         (error == EAFNOSUPPORT || error == EADDRNOTAVAIL || error == ENETUNREACH);
}

// The result of a connection that was started: 0 if it was made, else an errno value.
int ErrorOf(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

}  // namespace

bool IsOneAddress(const std::string& endpoint) {
  if (endpoint.starts_with("unix:")) return true;
  const std::string host = Split(endpoint).host;
  in6_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool EveryAddressRefuses(const std::string& endpoint, std::chrono::milliseconds limit) {
  const Addresses addresses = Resolve(Split(endpoint));
  std::vector<UniqueFd> waiting;
  bool refused = addresses != nullptr;
  for (const addrinfo* one = addresses.get(); one != nullptr && refused; one = one->ai_next) {
    UniqueFd socket(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                             one->ai_protocol));
    if (socket.valid() &&
        (::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0 || errno == EINPROGRESS)) {
      waiting.push_back(std::move(socket));
    } else {
      refused = IsRefusal(errno, *one);
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (const UniqueFd& socket : waiting) {
    if (!refused) break;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const int wait = static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));
    pollfd watched = {socket.get(), POLLOUT, 0};
    refused = ::poll(&watched, 1, wait) == 1 && ErrorOf(socket.get()) == ECONNREFUSED;
  }
  return refused;
}

std::shared_ptr<RefusalCheck> RefusalCheck::Start(std::string endpoint,
                                                  std::chrono::milliseconds limit,
                                                  std::function<void(bool)> done) {
  const std::shared_ptr<RefusalCheck> check(new RefusalCheck(std::move(done)));
  // Detached: Cancel must not wait for a name server.
  std::thread([check, endpoint = std::move(endpoint), limit] {
    const bool everywhere = EveryAddressRefuses(endpoint, limit);
    const std::lock_guard lock(check->mutex_);
    if (check->done_) std::exchange(check->done_, nullptr)(everywhere);
  }).detach();
  return check;
}

void RefusalCheck::Cancel() {
  const std::lock_guard lock(mutex_);
  done_ = nullptr;
}

}  // namespace ddprun
