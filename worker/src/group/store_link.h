// The connection of c10d's store. It can be ended while a thread waits for an answer of the store:
// c10d itself cannot end such a wait.
#ifndef DDPRUN_WORKER_SRC_GROUP_STORE_LINK_H_
#define DDPRUN_WORKER_SRC_GROUP_STORE_LINK_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {

class StoreLink {
 public:
  StoreLink() = default;  // of no store

  // `make` makes a store that connects to this port. 0: nobody will end the connection.
  static StoreLink Of(const std::function<void()>& make, std::uint16_t port);

  // Ends the connection: every current and later operation of the store throws. Any thread.
  void ShutDown() const;

 private:
  std::vector<ddprun::UniqueFd> sockets_;  // duplicates: the store may close its own at any time
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_STORE_LINK_H_
