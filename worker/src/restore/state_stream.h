// Sends the bytes of a state from the rank that has it to the tensors of all ranks. The bytes take
// the route of StateRoute, in chunks, a few at a time.
//
// Memory besides the tensors: a ChunkRing of 4 MiB per node, at most 1.25 MiB per process (with a
// GPU and a secret), and the kernel's socket buffers.
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

// What is wrong with the file of a state. One of the two members is set.
struct StreamFault {
  std::string damage;                           // the hashes or the length are wrong
  std::optional<UnavailableError> unavailable;  // some bytes could not be read
};

// A collective. `parts` are the parts of the state; the same on all ranks, except for `to`. Returns
// nullopt on all ranks if on every rank the bytes match the hashes. Throws AgreedError if the file
// is good but the bytes of a rank differ.
std::optional<StreamFault> StreamState(const Context& ctx, const FoundState& state,
                                       std::vector<StatePart> parts);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RESTORE_STATE_STREAM_H_
