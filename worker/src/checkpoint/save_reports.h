// Reports checkpoints, failed checkpoints and snapshots to the agent.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_SAVE_REPORTS_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_SAVE_REPORTS_H_

#include <ddp/context.h>

#include <chrono>
#include <cstdint>

#include "worker/src/storage/checkpoint_writer.h"

namespace ddp::internal {

// `ctx` must outlive the result.
CheckpointWriter::Events ReportsOf(const Context& ctx);

// The function for SnapshotWriter::Published.
void ReportSnapshot(std::int64_t step, std::chrono::nanoseconds took);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_SAVE_REPORTS_H_
