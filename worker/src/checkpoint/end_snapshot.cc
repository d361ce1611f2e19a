#include "worker/src/checkpoint/end_snapshot.h"

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "worker/contract/control.h"
#include "worker/contract/environment.h"
#include "worker/src/agent/control_client.h"
#include "worker/src/agent/launch_variables.h"
#include "worker/src/checkpoint/save_reports.h"
#include "worker/src/group/failure.h"
#include "worker/src/state/state_image.h"
#include "worker/src/storage/checkpoint_folder.h"

namespace ddp::internal {
namespace {

// How long to wait for local rank 0 to finish its own snapshot. Short compared with the time that a
// process has to leave.
constexpr std::chrono::milliseconds kTurn(300);

}  // namespace

void MakeSnapshotWriter(int rank, std::optional<std::int64_t> keep_step,
                        std::optional<SnapshotWriter>* writer) {
  const char* const folder = LaunchVariable(ddprun::env::kSnapshotDir);
  writer->emplace(folder, rank, keep_step, ReportSnapshot);
}

void MakeEndSnapshot(LiveState::State state, int rank, SnapshotTurn* turn,
                     std::optional<SnapshotWriter>* writer) {
  try {
    const StateImage image(std::move(state.tensors));
    if (!*writer) {
      if (!turn->Take(kTurn)) {
        if (turn->NewestStep() >= state.step) return;
        throw std::runtime_error("another process of the node still makes snapshots");
      }
      const std::optional<std::int64_t> newest = turn->NewestStep();
      if (newest >= state.step) return;
      MakeSnapshotWriter(rank, newest, writer);
      (*writer)->Prepare(image.bytes());
    }
    (*writer)->Wait();
    if (!(*writer)->usable() || (*writer)->newest_step() >= state.step) return;
    std::byte* const memory = (*writer)->Begin(image.bytes());
    if (memory == nullptr) return;
    CheckpointImage copy = image.CopyTo(memory);
    copy.step = state.step;
    copy.metadata = std::move(state.metadata);
    (*writer)->Publish(std::move(copy));
    (*writer)->Wait();
  } catch (const std::exception& e) {
    ControlClient::Process().Send(ddprun::control::kSnapshotFailed, TextOf(e));
    Warn(rank,
         "there is no snapshot of the last step, " + std::to_string(state.step) + ": " + TextOf(e));
  }
}

}  // namespace ddp::internal
