// Carries the bytes of a state from the rank that has it into the tensors of all ranks.
#ifndef DDPRUN_WORKER_SRC_RESTORE_STATE_STREAM_H_
#define DDPRUN_WORKER_SRC_RESTORE_STATE_STREAM_H_

#include <ddp/context.h>

#include <optional>
#include <string>
#include <vector>

#include "worker/src/formats/format_error.h"
#include "worker/src/restore/state_search.h"
#include "worker/src/restore/state_sink.h"

namespace ddp::internal {

// How the bytes travel: see StateRoute. In chunks, of which a few are under way at once: beside the
// tensors it takes a ChunkRing of 4 MiB on each node, and at most 1 MiB in each process, beside the
// kernel's buffers of a connection.
//
// What is wrong with a state's file.
struct StreamFault {
  std::string damage;                           // as hashes or length say; or
  std::optional<UnavailableError> unavailable;  // some of its bytes could not be read
};

// A collective; `parts`: those of the state, alike on all ranks, but for where they go. Returns
// nothing, on all ranks, where every rank has what the hashes say. Where the file is good and yet a
// rank has something else, throws AgreedError.
std::optional<StreamFault> StreamState(const Context& ctx, const FoundState& state,
                                       std::vector<StatePart> parts);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RESTORE_STATE_STREAM_H_
