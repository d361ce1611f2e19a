// Writes checkpoints to disk on a thread of its own, one at a time, while training continues.
//
// A failure costs a checkpoint, but never the training. The writer reports it on stderr and with
// Events::failed, and counts it. The older files do not change.
#ifndef DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_WRITER_H_
#define DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_WRITER_H_

#include <ddp/save_status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "worker/contract/task_queue.h"
#include "worker/src/storage/checkpoint_folder.h"
#include "worker/src/storage/folder_owner.h"

namespace ddp::internal {

// One thread, the owner, calls all functions. The writer's thread calls the events.
// Exception: if the owner calls Fail(), that call calls Events::failed.
class CheckpointWriter {
 public:
  struct Events {
    // `took`: the time since Start(), without its wait for the checkpoint before.
    std::function<void(std::int64_t step, const std::string& path, std::chrono::nanoseconds took)>
        durable;
    // `failures` is the number of failures so far, including this one.
    std::function<void(std::int64_t step, std::int64_t failures, const std::string& reason)> failed;
  };

  // `self` identifies this process for other users of the folder (folder_owner.h). The destructor
  // waits for the current checkpoint.
  CheckpointWriter(std::string directory, Retention retention, Events events,
                   std::optional<ddprun::CheckpointOwner> self = std::nullopt,
                   FolderOwnerOptions owner = {});

  // These two call the functions of FolderOwner, after the last checkpoint is finished.
  bool TryClaim();
  void Release();
  // FolderOwner::look().
  std::chrono::milliseconds look() const { return owner_.look(); }

  // True if this object has saved a checkpoint of that step.
  bool HasSaved(std::int64_t step) const;

  // Begins to write. First waits if a checkpoint is unfinished. The memory to which `image` points
  // must not change until Wait() returns or busy() is false.
  void Start(CheckpointImage image);

  bool busy() const;  // a checkpoint is unfinished
  void Wait();        // waits until busy() is false

  // Reports a failed save, and counts it.
  void Fail(std::int64_t step, const std::string& reason);
  void CountSkipped();

  SaveStatus status() const;

 private:
  void Write(CheckpointImage image);

  // Constant after construction.
  const std::string directory_;
  const Retention retention_;
  const Events events_;

  // Used by the writer's thread. The owner's thread uses them while the writer is idle.
  FolderOwner owner_;
  bool folder_was_there_ = false;

  mutable std::mutex mutex_;
  SaveStatus status_;             // guarded by mutex_, except `writing`: busy() returns that
  std::set<std::int64_t> saved_;  // guarded by mutex_: steps

  ddprun::TaskQueue thread_{"ddp-checkpoint"};  // last, so it ends before the other members
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_WRITER_H_
