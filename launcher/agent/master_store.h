// MasterStore: what this node has for MASTER_PORT, should rank 0 run here: the port that it offers,
// and torch's store on it for one generation after the other.
//
// Belongs to the agent and its loop's thread. A store has a thread of its own; one more starts and
// ends stores, because the end of a large one takes a while.
#ifndef DDPRUN_LAUNCHER_AGENT_MASTER_STORE_H_
#define DDPRUN_LAUNCHER_AGENT_MASTER_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "launcher/agent/port_offer.h"
#include "launcher/core/supervisor/actions.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "rendezvous/core/progress.h"

namespace ddprun {

class MasterStore {
 public:
  // `loop` must outlive this object.
  explicit MasterStore(EventLoop* loop);
  ~MasterStore();
  MasterStore(const MasterStore&) = delete;
  MasterStore& operator=(const MasterStore&) = delete;

  PortOffer& port() { return port_; }

  // Serves an empty store in place of the one before, and calls `done` when clients can connect, or
  // with why they cannot. It listens on the socket that has held the port, where this node holds
  // it: nobody can take it in between. Where MASTER_ADDR is a loopback address, only processes of
  // this host are served.
  void Open(const SupervisorActions::OpenStore& open,
            std::function<void(const absl::Status&)> done);
  void Close();

  // Of the generation whose store is open, once a rank has come and until all have.
  std::optional<StoreArrivals> arrivals() const;

 private:
  struct Board;   // what the server's thread says
  struct Server;  // started and ended on the other thread alone

  PortOffer port_;
  int world_size_ = 0;
  std::shared_ptr<Board> board_;  // of the newest store
  const std::shared_ptr<Server> server_;
  OffLoop off_loop_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_MASTER_STORE_H_
