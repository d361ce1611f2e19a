// Waiting for all ranks, and knowing who is missing.
//
// Each rank notes in the store that it has come to its n-th barrier: `ddp/barrier/arrivals/RANK`
// counts. How it waits for the others depends on the group:
//   kGroup   a sum of one number. Gloo's connections tell at once when a peer dies.
//   kStore   a key of the store that the last rank sets. Where a group of NCCL carries nothing else
//            (libtorch 1.13), whose work cannot be waited for with a timeout of its own.
// Neither polls.
#ifndef DDPRUN_WORKER_SRC_COLLECTIVES_BARRIER_H_
#define DDPRUN_WORKER_SRC_COLLECTIVES_BARRIER_H_

#include <ddp/context.h>

#include <chrono>

namespace ddp::internal {

enum class BarrierWay { kGroup, kStore };

// Throws CollectiveError as ddp::barrier() says. A collective: all ranks the same way.
void WaitForAll(const Context& ctx, BarrierWay way, std::chrono::milliseconds timeout);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_COLLECTIVES_BARRIER_H_
