#include "worker/src/tcp.h"

#include <ddp/errors.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "worker/src/file_descriptor.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause(1);
constexpr milliseconds kLongestPause(16);      // thousands of ranks may be asking one host
constexpr milliseconds kLongestConnect(2000);  // a lost SYN is sent again by the kernel after 1 s

FileDescriptor OpenSocket(int family, int type) {
  return FileDescriptor(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// The addresses of host:port, or null with getaddrinfo's code in `*error`.
AddressList Resolve(const std::string& host, std::uint16_t port, int type, int* error) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  addrinfo* list = nullptr;
  *error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  return AddressList(*error == 0 ? list : nullptr, &freeaddrinfo);
}

// Connects, and closes again. Returns 0 or the system's error number.
int TryConnect(const addrinfo& address, milliseconds patience) {
  const FileDescriptor socket = OpenSocket(address.ai_family, SOCK_STREAM);
  if (!socket.valid()) return errno;
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready = {socket.get(), POLLOUT, 0};
  const int count = poll(&ready, 1, static_cast<int>(std::max(patience, kFirstPause).count()));
  if (count <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

std::string Seconds(milliseconds time) {
  const auto tenths = time.count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

void WaitForListener(const std::string& host, std::uint16_t port, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  milliseconds pause = kFirstPause;
  std::string last_error;
  std::string last_answer;  // the last error that is more than silence
  for (;;) {
    int resolve_error = 0;
    const AddressList list = Resolve(host, port, SOCK_STREAM, &resolve_error);
    if (resolve_error != 0) last_error = gai_strerror(resolve_error);
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
      const int error = TryConnect(*address, std::min(left, kLongestConnect));
      if (error == 0) return;
      last_error = std::strerror(error);
      // Firewalls limit how often they answer, and the last attempt has little time.
      if (error != ETIMEDOUT) last_answer = last_error;
    }
    if (steady_clock::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  if (!last_answer.empty() && last_answer != last_error) last_error += "; before: " + last_answer;
  throw CollectiveError("rank 0 did not listen at MASTER_ADDR:MASTER_PORT = " + host + ":" +
                        std::to_string(port) + " within " + Seconds(timeout) + " (last error: " +
                        last_error + "). Did rank 0 start, and can this host reach that address?");
}

std::string LocalAddressTowards(const std::string& host) {
  int resolve_error = 0;
  // The port plays no role; connect() of a datagram socket only looks up the route.
  const AddressList list = Resolve(host, 9, SOCK_DGRAM, &resolve_error);
  std::string last_error = resolve_error != 0 ? gai_strerror(resolve_error) : "no address";
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    const FileDescriptor socket = OpenSocket(address->ai_family, SOCK_DGRAM);
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

}  // namespace ddp::internal
