// Writes checkpoints to disk, one at a time, on its own thread, while training continues.
//
// A failure costs a checkpoint, never the training: it is reported on stderr and to the listener
// and counted, and the older files are unchanged.
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

// One thread, the owner, calls all functions; the events come on the writer's thread.
class CheckpointWriter {
 public:
  struct Events {
    // `took`: since Start().
    std::function<void(std::int64_t step, const std::string& path, std::chrono::nanoseconds took)>
        durable;
    // `failures`: so far, including this one.
    std::function<void(std::int64_t step, std::int64_t failures, const std::string& reason)> failed;
  };

  // `self`: the identity of this process, for other users of the folder (folder_owner.h). The
  // destructor waits for the present checkpoint.
  CheckpointWriter(std::string directory, Retention retention, Events events,
                   std::optional<ddprun::CheckpointOwner> self = std::nullopt,
                   FolderOwnerOptions owner = {});

  // The functions of FolderOwner, called when the last checkpoint is finished.
  bool TryClaim();
  void Release();
  std::chrono::milliseconds look() const { return owner_.look(); }

  // This object has saved a checkpoint of that step.
  bool HasSaved(std::int64_t step) const;

  // Begins to write; first waits for an unfinished checkpoint. The memory that `image` points to
  // must not change until Wait() returns or busy() is false.
  void Start(CheckpointImage image);

  bool busy() const;  // a checkpoint is unfinished
  void Wait();        // until busy() is false

  // Reports a save that failed before anything could be written.
  void Fail(std::int64_t step, const std::string& reason);
  void CountSkipped();

  SaveStatus status() const;

 private:
  void Write(CheckpointImage image);

  // Constant after construction.
  const std::string directory_;
  const Retention retention_;
  const Events events_;

  // Used by the writer's thread, and by the owner's thread while the writer is idle.
  FolderOwner owner_;
  bool folder_was_there_ = false;

  mutable std::mutex mutex_;
  SaveStatus status_;             // guarded by mutex_, except `writing`, which is busy()
  std::set<std::int64_t> saved_;  // guarded by mutex_: steps

  ddprun::TaskQueue thread_{"ddp-checkpoint"};  // the last member: ends before all others
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_WRITER_H_
