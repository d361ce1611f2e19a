// The port that this node offers for torch's store, in case rank 0 runs here. Belongs to the loop's
// thread.
#ifndef DDPRUN_LAUNCHER_AGENT_PORT_OFFER_H_
#define DDPRUN_LAUNCHER_AGENT_PORT_OFFER_H_

#include <optional>

#include "launcher/os/port_holder.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class PortOffer {
 public:
  // A port that this node holds, or 0 if none is free. It is a new port if no worker runs and the
  // last port was used: processes left over from the last generation must not reach the next store.
  int Offer(bool workers_running);
  // Call it when the workers know the port: a store may listen on it from now on.
  void Use() { used_ = true; }
  // Gives away the bound socket that holds `port`, for the store to listen on. nullopt: this object
  // does not hold that port.
  std::optional<UniqueFd> Take(int port);

 private:
  std::optional<PortHolder> port_;
  bool used_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_PORT_OFFER_H_
