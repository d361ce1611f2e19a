// The agent's end of the control socket, on which workers report.
//
// Belongs to the agent and its loop's thread, where all callbacks run. The kernel, not a message,
// identifies each peer (SO_PEERCRED). `worker` is the leader of the peer's
// process group: the worker's pid, even if the worker is a shell and its child sends the messages.
// If the peer left the worker's group (setsid), `worker` is the peer's nearest ancestor that is a
// worker. If the peer has no such ancestor, `worker` is the leader of the peer's own process group.
// If the peer ended and was reaped before the agent accepted the connection, `worker` is the peer's
// pid.
//
// A packet that is malformed or larger than control::kMaxPacketBytes closes its connection, and the
// error handler gets the reason. Nothing that a worker sends can end the agent.
#ifndef DDPRUN_LAUNCHER_OS_CONTROL_SOCKET_H_
#define DDPRUN_LAUNCHER_OS_CONTROL_SOCKET_H_

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/process/process_id.h"
#include "launcher/text/parse_control.h"
#include "rendezvous/core/limits.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

// The other end of a connection.
struct ControlPeer {
  pid_t worker = 0;     // its pid, or the pid of a process that belongs to no worker
  ProcessId process{};  // the process that connected
};

class ControlSocket {
 public:
  // Limit of open connections: each worker and each warm standby has one. A further connection is
  // closed, and the error handler gets the reason.
  static constexpr std::size_t kMaxConnections = 2 * kMaxWorkersPerNode;

  using MessageHandler =
      std::function<void(const ControlPeer& peer, const ControlMessage& message)>;
  using ErrorHandler = std::function<void(pid_t peer, const std::string& reason)>;
  using IsWorker = std::function<bool(pid_t pid)>;

  // Listens at `directory`/control.sock, mode 0600. `loop` must outlive the result, and the
  // handlers must not destroy the result. Errors: InvalidArgument if the path is too long for a
  // Unix socket (107 bytes), otherwise errno's. `is_worker` is called when a process connects.
  static absl::StatusOr<std::unique_ptr<ControlSocket>> Listen(EventLoop* loop,
                                                               const std::string& directory,
                                                               MessageHandler on_message,
                                                               ErrorHandler on_error,
                                                               IsWorker is_worker);

  // Closes all connections and removes the socket's file.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  // The value of DDPRUN_CONTROL_SOCKET.
  const std::string& path() const { return path_; }

  // Handles all packets that the worker `peer` has sent, also on a connection that is not accepted
  // yet. Call it when a worker has died, before acting on the death: the worker's last messages may
  // be unread.
  void ReadToEnd(pid_t peer);

  // Sends a packet with the line key=value on every connection of the worker `peer`. Skips a
  // connection whose buffer is full: the worker does not read it. Returns the number of connections
  // that got the packet. `descriptors`, at most control::kGoDescriptors, are sent along; the caller
  // keeps them.
  int SendTo(pid_t peer, std::string_view key, std::string_view value,
             std::span<const int> descriptors = {});

  std::size_t connections() const { return connections_.size(); }

 private:
  struct Connection {
    UniqueFd fd;
    ControlPeer peer;
  };
  // Ordered by worker, so a message to one worker does not search the connections of others.
  struct ConnectionId {
    pid_t worker = 0;
    std::uint64_t number = 0;
    auto operator<=>(const ConnectionId&) const = default;
  };
  using Connections = std::map<ConnectionId, Connection>;
  enum class Received { kPacket, kNothing, kClosed };

  ControlSocket(EventLoop* loop, std::string path, UniqueFd listener, MessageHandler on_message,
                ErrorHandler on_error, IsWorker is_worker);

  ControlPeer PeerOf(int fd) const;
  void AcceptAll();
  bool AcceptOne();
  void Read(ConnectionId id, int max_packets);
  Received ReadPacket(ConnectionId id);
  void Close(ConnectionId id);
  std::vector<ConnectionId> ConnectionsOf(pid_t worker) const;

  EventLoop* const loop_;
  const std::string path_;
  const MessageHandler on_message_;
  const ErrorHandler on_error_;
  const IsWorker is_worker_;
  UniqueFd listener_;
  UniqueFd spare_;  // closed for a moment to refuse a connection when descriptors have run out
  std::uint64_t next_number_ = 1;
  Connections connections_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_CONTROL_SOCKET_H_
