#include "launcher/os/control_socket.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/contract/control.h"

namespace ddprun {
namespace {

// A node's workers connect at the same time; the kernel refuses a connection if the queue is full.
constexpr int kBacklog =
    ControlSocket::kMaxConnections;  // the kernel caps it at net.core.somaxconn
constexpr int kPacketsPerTurn = 64;  // then other descriptors have their turn
// A dead worker's connection holds far fewer, but a living grandchild may send without end.
constexpr int kPacketsToTheEnd = 4096;

UniqueFd OpenSpare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

constexpr int kMostAncestors = 64;

// The leader of the process group; `pid` itself if the leader is in another pid namespace.
pid_t GroupOf(pid_t pid) {
  const pid_t group = ::getpgid(pid);
  return group > 0 ? group : pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlSocket>> ControlSocket::Listen(EventLoop* loop,
                                                                     const std::string& directory,
                                                                     MessageHandler on_message,
                                                                     ErrorHandler on_error,
                                                                     IsWorker is_worker) {
  const std::string path = absl::StrCat(directory, "/control.sock");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("control socket ", path, ": the path has ",
                                                   path.size(), " bytes, a Unix socket's can have ",
                                                   sizeof(address.sun_path) - 1,
                                                   "; choose a shorter directory"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());

  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return absl::ErrnoToStatus(errno, "cannot make the control socket");
  // Linux gives the file the mode of the bound socket. So others can never connect in between, and
  // the umask need not be changed under other threads.
  ::fchmod(listener.get(), 0600);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener.get(), kBacklog) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen at control socket ", path));
  }
  return std::unique_ptr<ControlSocket>(
      new ControlSocket(loop, path, std::move(listener), std::move(on_message), std::move(on_error),
                        std::move(is_worker)));
}

ControlSocket::ControlSocket(EventLoop* loop, std::string path, UniqueFd listener,
                             MessageHandler on_message, ErrorHandler on_error, IsWorker is_worker)
    : loop_(loop),
      path_(std::move(path)),
      on_message_(std::move(on_message)),
      on_error_(std::move(on_error)),
      is_worker_(std::move(is_worker)),
      listener_(std::move(listener)),
      spare_(OpenSpare()) {
  loop_->Watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { AcceptAll(); });
}

ControlSocket::~ControlSocket() {
  loop_->Unwatch(listener_.get());
  while (!connections_.empty()) Close(connections_.begin()->first);
  ::unlink(path_.c_str());
}

// Empty if the kernel does not know the peer (a process of another pid namespace).
ControlPeer ControlSocket::PeerOf(int fd) const {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {};
  if (credentials.pid <= 0) return {};
  const ProcessId process = ProcessIdOf(credentials.pid);
  pid_t pid = credentials.pid;
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    const pid_t group = GroupOf(pid);
    if (is_worker_(group)) return {group, process};
    const std::optional<ProcessStat> stat = ReadProcessStat(pid);
    if (!stat) break;
    pid = stat->parent;
  }
  return {GroupOf(credentials.pid), process};
}

void ControlSocket::AcceptAll() {
  for (int i = 0; i < kBacklog && AcceptOne(); ++i) {
  }
}

// False: no connection waits.
bool ControlSocket::AcceptOne() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid() && (errno == EMFILE || errno == ENFILE) && spare_.valid()) {
    // Left in the queue, the connection would wake the loop forever.
    spare_.reset();
    fd.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const bool waiting = fd.valid();
    const pid_t peer = waiting ? PeerOf(fd.get()).worker : 0;
    fd.reset();
    spare_ = OpenSpare();
    if (!waiting) return false;
    on_error_(peer, "control connection refused: the agent has no descriptors left (ulimit -n)");
    return true;
  }
  if (!fd.valid()) return errno == EINTR || errno == ECONNABORTED;

  const ControlPeer peer = PeerOf(fd.get());
  if (peer.worker == 0) {
    on_error_(0, "control connection refused: its process is unknown (another pid namespace?)");
    return true;
  }
  if (connections_.size() >= kMaxConnections) {
    on_error_(peer.worker,
              absl::StrCat("control connection refused: there are ", kMaxConnections, " already"));
    return true;
  }
  const ConnectionId id{peer.worker, next_number_++};
  loop_->Watch(fd.get(), EPOLLIN, [this, id](std::uint32_t) { Read(id, kPacketsPerTurn); });
  connections_.emplace(id, Connection{std::move(fd), peer});
  return true;
}

void ControlSocket::Read(ConnectionId id, int max_packets) {
  for (int i = 0; i < max_packets; ++i) {
    switch (ReadPacket(id)) {
      case Received::kPacket:
        break;
      case Received::kNothing:
        return;
      case Received::kClosed:
        return Close(id);
    }
  }
}

ControlSocket::Received ControlSocket::ReadPacket(ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return Received::kNothing;
  const ControlPeer peer = found->second.peer;
  char buffer[control::kMaxPacketBytes];
  iovec data{buffer, sizeof(buffer)};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  // No room for descriptors: the kernel closes any that are sent.
  const ssize_t size = ::recvmsg(found->second.fd.get(), &header, MSG_CMSG_CLOEXEC);
  // ECONNRESET: the peer has closed without reading its messages. The kernel reports it once, then
  // returns what the peer has sent.
  if (size < 0 && (errno == EINTR || errno == ECONNRESET)) return Received::kPacket;
  if (size < 0 && errno == EAGAIN) return Received::kNothing;
  if (size <= 0) return Received::kClosed;  // an empty packet looks like the end, and counts as it
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    on_error_(peer.worker,
              absl::StrCat("control packet refused: more than ", control::kMaxPacketBytes,
                           " bytes; the connection is closed"));
    return Received::kClosed;
  }
  const absl::StatusOr<std::vector<ControlMessage>> messages =
      ParseControl(std::string_view(buffer, static_cast<std::size_t>(size)));
  if (!messages.ok()) {
    on_error_(peer.worker, absl::StrCat(messages.status().message(), "; the connection is closed"));
    return Received::kClosed;
  }
  for (const ControlMessage& message : *messages) on_message_(peer, message);
  return Received::kPacket;
}

void ControlSocket::Close(ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  loop_->Unwatch(found->second.fd.get());
  connections_.erase(found);
}

int ControlSocket::SendTo(pid_t peer, std::string_view key, std::string_view value,
                          std::span<const int> descriptors) {
  std::string packet(key);
  packet += '=';
  packet += value;
  iovec data{packet.data(), packet.size()};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * control::kGoDescriptors)] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = ancillary;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  int sent = 0;
  for (const ConnectionId id : ConnectionsOf(peer)) {
    const int fd = connections_.at(id).fd.get();
    if (::sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) ++sent;
  }
  return sent;
}

void ControlSocket::ReadToEnd(pid_t peer) {
  AcceptAll();
  for (const ConnectionId id : ConnectionsOf(peer)) Read(id, kPacketsToTheEnd);
}

std::vector<ControlSocket::ConnectionId> ControlSocket::ConnectionsOf(pid_t worker) const {
  std::vector<ConnectionId> ids;
  auto at = connections_.lower_bound({worker, 0});
  for (; at != connections_.end() && at->first.worker == worker; ++at) ids.push_back(at->first);
  return ids;
}

}  // namespace ddprun
