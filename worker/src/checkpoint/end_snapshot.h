// The snapshot (a state in the node's memory) of the last finished step, made when a process leaves
// its generation.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_END_SNAPSHOT_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_END_SNAPSHOT_H_

#include <cstdint>
#include <optional>

#include "worker/src/checkpoint/live_state.h"
#include "worker/src/storage/snapshot_turn.h"
#include "worker/src/storage/snapshot_writer.h"

namespace ddp::internal {

// Makes a writer for DDPRUN_SNAPSHOT_DIR. The writer reports each snapshot to the agent.
// `keep_step`: see SnapshotSlots.
void MakeSnapshotWriter(int rank, std::optional<std::int64_t> keep_step,
                        std::optional<SnapshotWriter>* writer);

// Makes the snapshot, unless the node has one of that step or a later step. Returns when the
// snapshot is complete. Never throws: after a failure the node has only an older state.
//
// Local rank 0 passes its writer in `*writer`, and already has the turn. On any other rank
// `*writer` is empty. Such a rank waits a short time for the turn. If it gets the turn, local rank
// 0 is dead or has left. If the node still lacks the snapshot then, the rank makes a writer and the
// snapshot.
void MakeEndSnapshot(LiveState::State state, int rank, SnapshotTurn* turn,
                     std::optional<SnapshotWriter>* writer);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_END_SNAPSHOT_H_
