// Arrivals: which ranks have connected to the store. It reads the keys that libtorch and the ddp
// library set while they make a process group. Pure.
//
//     init/              each client of torch's TCPStore adds 1 to it, with any backend
//     .../rank_<rank>    Gloo, which knows the rank
//     .../joined/<rank>  the ddp library
#ifndef DDPRUN_LAUNCHER_TORCH_STORE_ARRIVALS_H_
#define DDPRUN_LAUNCHER_TORCH_STORE_ARRIVALS_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "launcher/torch_store/wire.h"

namespace ddprun::torch_store {

class Arrivals {
 public:
  static constexpr int kMaxRanks = 1 << 20;  // higher ones are not counted

  // Takes a request that a client has sent. True: the request shows a new arrival.
  bool See(const Request& request);

  // How many of `world_size` ranks have connected.
  int count(int world_size) const;
  // The lowest missing ranks, at most `most`; nullopt: no key with a rank was set.
  std::optional<std::vector<int>> Missing(int world_size, std::size_t most) const;

 private:
  int clients_ = 0;
  std::vector<bool> ranks_;  // known to have come
  int known_ = 0;            // number of true entries in ranks_
};

}  // namespace ddprun::torch_store

#endif  // DDPRUN_LAUNCHER_TORCH_STORE_ARRIVALS_H_
