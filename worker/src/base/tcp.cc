#include "worker/src/base/tcp.h"

#include <ddp/errors.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "worker/src/base/in_words.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause(1);
constexpr milliseconds kLongestPause(16);      // thousands of ranks may connect to one host
constexpr milliseconds kLongestConnect(2000);  // the kernel resends a lost SYN after 1 s

ddprun::UniqueFd OpenSocket(int family, int type) {
  return ddprun::UniqueFd(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// The addresses of host:port. Null: an error; `*error` is the code of getaddrinfo.
AddressList Resolve(const std::string& host, const std::string& port, int type, int* error) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  addrinfo* list = nullptr;
  *error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  return AddressList(*error == 0 ? list : nullptr, &freeaddrinfo);
}

// An invalid descriptor means failure; `*error` is errno then.
ddprun::UniqueFd TryConnect(const addrinfo& address, milliseconds patience, int* error) {
  ddprun::UniqueFd socket = OpenSocket(address.ai_family, SOCK_STREAM);
  *error = 0;
  if (socket.valid() && connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) {
    return socket;
  }
  *error = errno;
  if (!socket.valid() || *error != EINPROGRESS) return {};
  pollfd ready = {socket.get(), POLLOUT, 0};
  const auto deadline = steady_clock::now() + std::max(patience, kFirstPause);
  int count = 0;
  do {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    count = poll(&ready, 1, static_cast<int>(std::max(left, milliseconds(0)).count()));
  } while (count < 0 && errno == EINTR);
  *error = ETIMEDOUT;
  if (count <= 0) return {};
  socklen_t size = sizeof(*error);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, error, &size);
  return *error == 0 ? std::move(socket) : ddprun::UniqueFd();
}

}  // namespace

void ThrowErrno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

void WaitForListener(const std::string& host, std::uint16_t port, milliseconds timeout,
                     milliseconds refused, const std::function<bool()>& given_up) {
  const auto begin = steady_clock::now();
  auto deadline = begin + timeout;
  milliseconds pause = kFirstPause;
  std::string last_error;
  std::string last_answer;  // the last error other than a timeout
  for (;;) {
    bool is_refused = false;
    int resolve_error = 0;
    const AddressList list = Resolve(host, std::to_string(port), SOCK_STREAM, &resolve_error);
    if (resolve_error != 0) last_error = gai_strerror(resolve_error);
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
      int error = 0;
      if (TryConnect(*address, std::min(left, kLongestConnect), &error).valid()) return;
      is_refused = is_refused || error == ECONNREFUSED;
      last_error = std::strerror(error);
      // Reports this instead of a timeout: firewalls limit how often they answer, and the last
      // attempt has little time.
      if (error != ETIMEDOUT) last_answer = last_error;
    }
    deadline = begin + (is_refused ? std::max(timeout, refused) : timeout);
    if (given_up != nullptr && given_up())
      throw CollectiveError("this rank no longer waits for rank 0, because its generation is over");
    if (steady_clock::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  const auto waited = std::chrono::duration_cast<milliseconds>(deadline - begin);
  if (!last_answer.empty() && last_answer != last_error) last_error += "; before: " + last_answer;
  throw CollectiveError("rank 0 did not listen at MASTER_ADDR:MASTER_PORT = " + host + ":" +
                        std::to_string(port) + " within " + Seconds(waited) + " (last error: " +
                        last_error + "). Did rank 0 start, and can this host reach that address?");
}

std::string LocalAddressTowards(const std::string& host) {
  int resolve_error = 0;
  // Any port will do: connect() of a datagram socket only looks up the route.
  const AddressList list = Resolve(host, "9", SOCK_DGRAM, &resolve_error);
  std::string last_error = resolve_error != 0 ? gai_strerror(resolve_error) : "no address";
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    const ddprun::UniqueFd socket = OpenSocket(address->ai_family, SOCK_DGRAM);
    sockaddr_storage local = {};
    socklen_t size = sizeof(local);
    if (!socket.valid() || connect(socket.get(), address->ai_addr, address->ai_addrlen) != 0 ||
        getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) {
      last_error = std::strerror(errno);
      continue;
    }
    char text[NI_MAXHOST] = {};
    const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&local), size, text,
                                  sizeof(text), nullptr, 0, NI_NUMERICHOST);
    if (error == 0) return text;
    last_error = gai_strerror(error);
  }
  throw ConfigError("no route to MASTER_ADDR=" + host + " (" + last_error +
                    "), so no local address for Gloo. Check MASTER_ADDR, or name this host's "
                    "network interface in GLOO_SOCKET_IFNAME");
}

ddprun::UniqueFd ListenEverywhere(int* port) {
  ddprun::UniqueFd fd = OpenSocket(AF_INET6, SOCK_STREAM);
  sockaddr_storage address = {};
  socklen_t size = sizeof(sockaddr_in6);
  address.ss_family = AF_INET6;
  const int off = 0;
  if (!fd.valid() || setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) {
    fd = OpenSocket(AF_INET, SOCK_STREAM);
    size = sizeof(sockaddr_in);
    address.ss_family = AF_INET;
  }
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!fd.valid() || bind(fd.get(), any, size) != 0 || listen(fd.get(), SOMAXCONN) != 0 ||
      getsockname(fd.get(), any, &size) != 0) {
    ThrowErrno("listen");
  }
  // The port is at the same offset in sockaddr_in and sockaddr_in6.
  *port = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return fd;
}

ddprun::UniqueFd ConnectTo(const std::string& host, std::string_view port, milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  int error = 0;
  const AddressList list = Resolve(host, std::string(port), SOCK_STREAM, &error);
  std::string reason = error != 0 ? gai_strerror(error) : "no address";
  for (bool again = true; again;) {
    again = false;
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
      ddprun::UniqueFd socket = TryConnect(*address, kLongestConnect, &error);
      if (socket.valid()) return socket;
      reason = std::strerror(error);
      again = again || error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
    }
    if (steady_clock::now() + kLongestPause >= deadline) break;
    if (again) std::this_thread::sleep_for(kLongestPause);
  }
  throw std::runtime_error("cannot connect to " + host + ":" + std::string(port) + " (" + reason +
                           ")");
}

void KeepAlive(int socket) {
  const std::pair<int, int> settings[] = {
      {TCP_KEEPIDLE, 3}, {TCP_KEEPINTVL, 2}, {TCP_KEEPCNT, 4}};  // seconds, seconds, count
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  for (const auto& [name, value] : settings) {
    setsockopt(socket, IPPROTO_TCP, name, &value, sizeof(value));
  }
}

std::string MakeToken() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) ThrowErrno("getrandom");
  std::string token;
  char hex[3];
  for (const unsigned char byte : bytes) {
    std::snprintf(hex, sizeof(hex), "%02x", byte);
    token += hex;
  }
  return token;
}

}  // namespace ddp::internal
