// Waits for all ranks, and names the missing ranks in the error.
//
// Each rank counts its barriers in the store, in `ddp/barrier/arrivals/RANK`. How a rank waits for
// the others depends on the group:
//   kGroup   With an all-reduce of one number. Gloo reports at once when the connection to a dead
//            rank breaks.
//   kStore   With a key of the store that the last rank sets. For a group of NCCL without a CPU
//            backend (libtorch 1.13), because a wait for NCCL's work does not obey a timeout of
//            the caller.
// Neither way polls.
#ifndef DDPRUN_WORKER_SRC_COLLECTIVES_BARRIER_H_
#define DDPRUN_WORKER_SRC_COLLECTIVES_BARRIER_H_

#include <ddp/context.h>

#include <chrono>

namespace ddp::internal {

enum class BarrierWay { kGroup, kStore };

// A collective; all ranks must use the same `way`. Throws CollectiveError like ddp::barrier().
void WaitForAll(const Context& ctx, BarrierWay way, std::chrono::milliseconds timeout);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_COLLECTIVES_BARRIER_H_
