// The port that this node offers for the store of rank 0, should rank 0 run here. Belongs to the
// loop's thread.
#ifndef DDPRUN_LAUNCHER_AGENT_PORT_OFFER_H_
#define DDPRUN_LAUNCHER_AGENT_PORT_OFFER_H_

#include <optional>

#include "launcher/os/port_holder.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class PortOffer {
 public:
  // A port that is held here, or 0 where none is free. A fresh one where no worker runs and the
  // last one was used: what is left of the last generation must not reach the next one's store.
  int Offer(bool workers_running);
  // Workers were told of it; a store may listen on it by now.
  void Use() { used_ = true; }
  // The bound socket that holds `port`, for who is to listen on it; nullopt: it is not held here.
  std::optional<UniqueFd> Take(int port);

 private:
  std::optional<PortHolder> port_;
  bool used_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_PORT_OFFER_H_
