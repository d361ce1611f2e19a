// The snapshot of the last finished step, made when a process leaves its generation.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_END_SNAPSHOT_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_END_SNAPSHOT_H_

#include <cstdint>
#include <optional>

#include "worker/src/checkpoint/live_state.h"
#include "worker/src/storage/snapshot_turn.h"
#include "worker/src/storage/snapshot_writer.h"

namespace ddp::internal {

// Makes a writer for DDPRUN_SNAPSHOT_DIR that reports each snapshot to the agent. `keep_step`: see
// SnapshotSlots.
void MakeSnapshotWriter(int rank, std::optional<std::int64_t> keep_step,
                        std::optional<SnapshotWriter>* writer);

// Makes the snapshot, unless one of that step or a later one exists. `writer` belongs to local rank
// 0. Another rank has none; it makes one if local rank 0 is dead or has left without such a
// snapshot. Returns when the snapshot is whole. Never throws: a failure is a warning, and the
// restart begins with an older state.
void MakeEndSnapshot(LiveState::State state, int rank, SnapshotTurn* turn,
                     std::optional<SnapshotWriter>* writer);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_END_SNAPSHOT_H_
