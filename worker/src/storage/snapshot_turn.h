// Which process of a node makes the snapshots in its folder (DDPRUN_SNAPSHOT_DIR): SnapshotSlots
// are of one process at a time. It is the local rank 0; when a generation ends it may be dead, or
// behind another one.
#ifndef DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_
#define DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {

// A lock of the folder, which the kernel lets go of with the process. One thread.
class SnapshotTurn {
 public:
  void In(std::string folder) { folder_ = std::move(folder); }

  // Until it is this process's, for `patience` at most. False: it is another one's. Where there is
  // no folder, or no lock in it, it is nobody's.
  bool Take(std::chrono::milliseconds patience);

  // Of the snapshots that are whole.
  std::optional<std::int64_t> NewestStep() const;

 private:
  std::string folder_;
  ddprun::UniqueFd lock_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_
