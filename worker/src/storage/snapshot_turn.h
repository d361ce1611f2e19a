// Decides which process of a node makes snapshots in the node's folder (DDPRUN_SNAPSHOT_DIR),
// because only one process at a time may use SnapshotSlots. Usually this is local rank 0. But when
// a generation ends, local rank 0 may be dead, or may have finished fewer steps than another rank.
#ifndef DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_
#define DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {

// A lock on the folder. The kernel releases it when the process ends. Only one thread may use it.
class SnapshotTurn {
 public:
  void In(std::string folder) { folder_ = std::move(folder); }

  // Waits for the lock for at most `patience`. False: another process has the lock, there is no
  // folder, or the folder cannot be locked.
  bool Take(std::chrono::milliseconds patience);

  // The step of the newest complete snapshot.
  std::optional<std::int64_t> NewestStep() const;

 private:
  std::string folder_;
  ddprun::UniqueFd lock_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_
