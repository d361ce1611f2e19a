// MasterStore: the port that this node offers as MASTER_PORT, and torch's store on it while rank 0
// runs here. Each generation has a new store.
//
// Belongs to the agent and its loop's thread. Each store has its own thread. Another thread starts
// and ends stores, because ending a large one takes a while.
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

  // Replaces the store by an empty one. Calls `done` once clients can connect, or with the reason
  // why they cannot. If this node holds the port, the store listens on the socket that holds it, so
  // that no other process can take the port in between. If MASTER_ADDR is a loopback address, the
  // store serves only processes of this host.
  void Open(const SupervisorActions::OpenStore& open,
            std::function<void(const absl::Status&)> done);
  void Close();

  // Set while some ranks, but not all, have connected to the open store.
  std::optional<StoreArrivals> arrivals() const;

 private:
  struct Board;   // written by the server's thread
  struct Server;  // started and ended on off_loop_'s thread; the destructor may also end it

  PortOffer port_;
  int world_size_ = 0;
  std::shared_ptr<Board> board_;  // of the newest store
  const std::shared_ptr<Server> server_;
  OffLoop off_loop_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_MASTER_STORE_H_
