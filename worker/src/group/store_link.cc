#include "worker/src/group/store_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

namespace ddp::internal {
namespace {

// The port to which this socket is connected; 0: it is not a connected TCP socket.
std::uint16_t PeerPort(int socket) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return 0;
  if (peer.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&peer)->sin_port);
  if (peer.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&peer)->sin6_port);
  return 0;
}

// The sockets of this process that are connected to this port, in ascending order.
std::vector<int> ConnectedTo(std::uint16_t port) {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename().native();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (PeerPort(fd) == port) found.push_back(fd);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

StoreLink StoreLink::Of(const std::function<void()>& make, std::uint16_t port) {
  if (port == 0) {
    make();
    return {};
  }
  const std::vector<int> before = ConnectedTo(port);
  make();
  const std::vector<int> after = ConnectedTo(port);
  std::vector<int> made;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::back_inserter(made));
  StoreLink link;
  for (const int socket : made) link.sockets_.emplace_back(fcntl(socket, F_DUPFD_CLOEXEC, 0));
  return link;
}

void StoreLink::ShutDown() const {
  for (const ddprun::UniqueFd& socket : sockets_) shutdown(socket.get(), SHUT_RDWR);
}

}  // namespace ddp::internal
