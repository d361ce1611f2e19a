// Decides which process of a node makes snapshots in its folder (DDPRUN_SNAPSHOT_DIR): only one
// process at a time may use SnapshotSlots. Mostly it is local rank 0; but when a generation ends,
// local rank 0 may be dead or behind another rank.
#ifndef DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_
#define DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {

// A lock on the folder, which the kernel releases with the process. One thread.
class SnapshotTurn {
 public:
  void In(std::string folder) { folder_ = std::move(folder); }

  // Waits for the lock, at most for `patience`. False: another process has it, or there is no
  // folder, or the folder cannot be locked.
  bool Take(std::chrono::milliseconds patience);

  // The step of the newest whole snapshot.
  std::optional<std::int64_t> NewestStep() const;

 private:
  std::string folder_;
  ddprun::UniqueFd lock_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_
