#include "worker/src/control_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "worker/contract/control.h"
#include "worker/contract/environment.h"

namespace ddp::internal {

ControlClient::~ControlClient() {
  if (fd_ >= 0) close(fd_);
}

ControlClient& ControlClient::Process() {
  static ControlClient* const client = [] {
    const char* const path = std::getenv(ddprun::env::kControlSocket);
    return new ControlClient(path == nullptr ? "" : path);
  }();
  return *client;
}

bool ControlClient::Connect() {
  if (fd_ >= 0) return true;
  sockaddr_un address = {};
  if (path_.empty() || path_.size() >= sizeof(address.sun_path)) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return false;
  }
  fd_ = fd;
  return true;
}

void ControlClient::Send(std::string_view key, std::string_view value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!Connect()) return;
  std::string packet(key);
  packet += '=';
  packet += value;
  packet.resize(std::min(packet.size(), ddprun::control::kMaxPacketBytes));
  std::replace(packet.begin(), packet.end(), '\n', ' ');
  if (send(fd_, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return;
  if (errno == EAGAIN || errno == EWOULDBLOCK) return;
  close(fd_);  // the agent is gone; the next message tries again
  fd_ = -1;
}

}  // namespace ddp::internal
