// Carries the bytes of a state from the rank that has it into the tensors of all ranks.
#ifndef DDPRUN_WORKER_SRC_STATE_STREAM_H_
#define DDPRUN_WORKER_SRC_STATE_STREAM_H_

#include <ddp/context.h>

#include <cstddef>
#include <string>
#include <vector>

#include "worker/src/state_sink.h"

namespace ddp::internal {

// How the bytes travel, with Gloo: see StateRoute; with NCCL, which knows the nodes itself, by
// broadcasts. In chunks, of which a few are under way at once: beside the tensors it takes a
// ChunkRing of 16 MiB on each node, and at most as much again in each process.
//
// A collective; `parts`: alike on all ranks, but for where they go. `file`: the bytes, where this
// rank can read them itself; `source` can. Throws AgreedError on all ranks where a rank does not
// have in the end what the hashes say.
void StreamState(const Context& ctx, int source, const std::byte* file,
                 std::vector<StatePart> parts);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_STREAM_H_
