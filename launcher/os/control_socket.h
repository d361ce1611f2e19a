// The agent's end of the control socket: workers connect and say what they are doing.
//
// Belongs to the agent and its loop's thread, where all callbacks run. Who a worker is comes from
// the kernel (SO_PEERCRED), never from a message: `worker` is the leader of the process group of
// the process that connected, which is the worker's pid even when the worker is a shell and one of
// its children speaks. Of a process that left its worker's group (setsid) the worker is the next of
// its ancestors that is one. A process that has no such ancestor is reported with its own group or
// pid; one that has been collected by its parent before the agent accepted it likewise.
//
// A packet that is malformed or larger than control::kMaxPacketBytes closes that connection, with a
// reason to the error handler; nothing a worker sends can end the agent.
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

// Who has connected.
struct ControlPeer {
  pid_t worker = 0;     // its pid, or that of a process which belongs to no worker
  ProcessId process{};  // the one that speaks
};

class ControlSocket {
 public:
  // At once: of each worker, and of each warm standby. The next one is closed again, with a reason
  // to the error handler.
  static constexpr std::size_t kMaxConnections = 2 * kMaxWorkersPerNode;

  using MessageHandler =
      std::function<void(const ControlPeer& peer, const ControlMessage& message)>;
  using ErrorHandler = std::function<void(pid_t peer, const std::string& reason)>;
  using IsWorker = std::function<bool(pid_t pid)>;

  // Listens at `directory`/control.sock, mode 0600. `loop` must outlive the socket, and the
  // handlers must not destroy it. Errors: InvalidArgument when the path is too long for a Unix
  // socket (107 bytes), otherwise errno's. `is_worker`: asked when a process connects.
  static absl::StatusOr<std::unique_ptr<ControlSocket>> Listen(EventLoop* loop,
                                                               const std::string& directory,
                                                               MessageHandler on_message,
                                                               ErrorHandler on_error,
                                                               IsWorker is_worker);

  // Closes all connections and removes the socket's file.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  // For DDPRUN_CONTROL_SOCKET.
  const std::string& path() const { return path_; }

  // Handles what the worker `peer` has sent until now, even if it connected a moment ago. Call it
  // when a worker has died and before its death is acted upon: its last words are in here.
  void ReadToEnd(pid_t peer);

  // Sends a packet with the line key=value on every connection of the worker `peer`. A worker that
  // does not read, and whose buffer is full, does not get it. Returns how many got it.
  // `descriptors`, at most control::kGoDescriptors, go with it and stay the caller's too.
  int SendTo(pid_t peer, std::string_view key, std::string_view value,
             std::span<const int> descriptors = {});

  std::size_t connections() const { return connections_.size(); }

 private:
  struct Connection {
    UniqueFd fd;
    ControlPeer peer;
  };
  // By its worker first: a message to one worker does not look at the connections of all others.
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
  UniqueFd spare_;  // given up for a moment to refuse a connection when descriptors have run out
  std::uint64_t next_number_ = 1;
  Connections connections_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_CONTROL_SOCKET_H_
