#include "worker/src/agent/control_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/contract/control.h"
#include "worker/contract/environment.h"
#include "worker/contract/progress_page.h"

namespace ddp::internal {

namespace control = ddprun::control;

namespace {

// A character that is not a hex digit counts as 0. The secret is then wrong, so no other rank
// accepts it.
std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned int byte = 0;
    std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

struct Packet {
  ssize_t size = -1;  // as recvmsg() returns it
  char text[control::kMaxPacketBytes];
  std::vector<ddprun::UniqueFd> descriptors;

  std::string_view lines() const { return {text, static_cast<std::size_t>(size)}; }
};

Packet Receive(int fd) {
  Packet packet;
  iovec data = {packet.text, sizeof(packet.text)};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * control::kGoDescriptors)];
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = ancillary;
  header.msg_controllen = sizeof(ancillary);
  packet.size = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (packet.size <= 0) return packet;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int sent = -1;
      std::memcpy(&sent, CMSG_DATA(part) + i * sizeof(int), sizeof(sent));
      packet.descriptors.emplace_back(sent);
    }
  }
  return packet;
}

}  // namespace

ControlClient& ControlClient::Process() {
  static ControlClient* const client = [] {
    const char* const path = std::getenv(ddprun::env::kControlSocket);
    return new ControlClient(path == nullptr ? "" : path);
  }();
  return *client;
}

bool ControlClient::Connect() {
  if (fd_.valid()) return true;
  sockaddr_un address = {};
  if (path_.empty() || path_.size() >= sizeof(address.sun_path)) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  fd_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (fd_.valid() && connect(fd_.get(), generic, sizeof(address)) != 0) fd_.reset();
  return fd_.valid();
}

void ControlClient::Send(std::string_view key, std::string_view value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!Connect()) return;
  std::string packet(key);
  packet += '=';
  packet += value;
  packet.resize(std::min(packet.size(), control::kMaxPacketBytes));
  std::replace(packet.begin(), packet.end(), '\n', ' ');
  if (send(fd_.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return;
  if (errno == EAGAIN || errno == EWOULDBLOCK) return;
  fd_.reset();  // the agent is gone; the next message connects again
}

int ControlClient::AgentPid() {
  const std::lock_guard lock(mutex_);
  ucred peer = {};
  socklen_t size = sizeof(peer);
  const bool known =
      fd_.valid() && getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  return known ? peer.pid : 0;
}

void ControlClient::ReadAll() {
  while (fd_.valid()) {
    Packet packet = Receive(fd_.get());
    if (packet.size <= 0) break;
    std::string_view lines = packet.lines();
    while (const auto line = control::NextLine(&lines)) {
      if (line->key == control::kSave && line->value == "1") ++save_requests_;
      if (line->key == control::kLeave && line->value == "1") Leave();
      if (line->key == control::kSecret) secret_ = line->value;
      const bool page = line->key == control::kProgress && packet.descriptors.size() == 1 &&
                        line->value == std::to_string(ddprun::kProgressVersion);
      if (page) progress_page_ = std::move(packet.descriptors[0]);
    }
  }
}

void ControlClient::SendStays() {
  stays_ = true;
  Send(control::kStays, "1");
}

void ControlClient::Leave() {
  if (!leaves_.exchange(true) && on_leave_ != nullptr) on_leave_();
}

void ControlClient::OnLeave(std::function<void()> on_leave) {
  const std::lock_guard<std::mutex> lock(mutex_);
  on_leave_ = std::move(on_leave);
  if (leaves_ && on_leave_ != nullptr) on_leave_();
}

void ControlClient::Read() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ReadAll();
}

int ControlClient::descriptor() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fd_.get();
}

void ControlClient::BeginGeneration() {
  const std::lock_guard<std::mutex> lock(mutex_);
  leaves_ = false;
  save_requests_ = 0;
  progress_page_.reset();  // a page that came late, after the program stopped waiting for it
}

bool ControlClient::WaitUntil(std::chrono::steady_clock::time_point deadline,
                              const std::function<bool()>& has_come) {
  // Another thread may read the awaited message. Then poll() does not wake this thread, so it looks
  // again after each slice.
  constexpr std::chrono::milliseconds kSlice{1};
  for (;;) {
    int fd = -1;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ReadAll();
      if (has_come()) return true;
      fd = fd_.get();
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (fd < 0 || left.count() <= 0) return false;
    pollfd readable = {fd, POLLIN, 0};
    poll(&readable, 1, static_cast<int>(std::min(left, kSlice).count()));
    if ((readable.revents & POLLHUP) != 0) return false;
  }
}

ddprun::UniqueFd ControlClient::TakeProgressPage(std::chrono::milliseconds patience) {
  ddprun::UniqueFd page;
  WaitUntil(std::chrono::steady_clock::now() + patience, [&] {
    page = std::move(progress_page_);
    return page.valid();
  });
  return page;
}

std::int64_t ControlClient::SaveRequests() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ReadAll();
  return save_requests_;
}

std::string ControlClient::AskForSecret(std::chrono::milliseconds patience) {
  Send(control::kSecret, "1");
  std::optional<std::string> secret;
  const bool answered = WaitUntil(std::chrono::steady_clock::now() + patience, [&] {
    secret = std::exchange(secret_, std::nullopt);
    return secret.has_value();
  });
  if (answered) return FromHex(*secret);
  throw std::runtime_error("the agent (ddprun) does not answer on the control socket " + path_ +
                           ": this rank does not know the secret of its job");
}

std::vector<ddprun::UniqueFd> ControlClient::WaitForGo() {
  Send(control::kStandby, control::kWaiting);
  if (!fd_.valid()) {
    throw std::runtime_error("a warm standby needs its agent, which does not answer at " + path_);
  }
  for (;;) {
    pollfd readable = {fd_.get(), POLLIN, 0};
    if (poll(&readable, 1, -1) < 0) continue;  // a signal
    Packet packet = Receive(fd_.get());
    if (packet.size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (packet.size <= 0) std::_Exit(0);
    std::string_view text = packet.lines();
    while (const std::optional<control::Line> line = control::NextLine(&text)) {
      if (line->key == control::kGo) return std::move(packet.descriptors);
    }
  }
}

}  // namespace ddp::internal
