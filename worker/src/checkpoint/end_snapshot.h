// The snapshot that a process makes of its last finished step when it leaves its generation.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_END_SNAPSHOT_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_END_SNAPSHOT_H_

#include <cstdint>
#include <optional>

#include "worker/src/checkpoint/live_state.h"
#include "worker/src/storage/snapshot_turn.h"
#include "worker/src/storage/snapshot_writer.h"

namespace ddp::internal {

// Makes a writer for DDPRUN_SNAPSHOT_DIR that tells the agent of each snapshot. `keep_step`: see
// SnapshotSlots.
void MakeSnapshotWriter(int rank, std::optional<std::int64_t> keep_step,
                        std::optional<SnapshotWriter>* writer);

// Makes the snapshot, unless there is one of that step or a later one. `writer` is the local rank
// 0's. Another rank has none: it makes one where the local rank 0 is dead or has left, without such
// a snapshot. Returns when it is whole. Throws nothing: whatever is wrong is a warning, and the
// restart begins with an older state.
void MakeEndSnapshot(LiveState::State state, int rank, SnapshotTurn* turn,
                     std::optional<SnapshotWriter>* writer);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_END_SNAPSHOT_H_
