// Puts checkpoints on disk, one at a time, on a thread of its own, while training goes on.
//
// What goes wrong there costs a checkpoint, never the training: it is said on stderr, counted, and
// told to the listener, and the older files stay as they are.
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

// All functions on one thread, which owns this; the events come on the writer's.
class CheckpointWriter {
 public:
  struct Events {
    // `took`: since Start() had the image.
    std::function<void(std::int64_t step, const std::string& path, std::chrono::nanoseconds took)>
        durable;
    // `failures`: so far, this one included.
    std::function<void(std::int64_t step, std::int64_t failures, const std::string& reason)> failed;
  };

  // `self`: who this process is, for who else has this folder (folder_owner.h). The destructor
  // waits.
  CheckpointWriter(std::string directory, Retention retention, Events events,
                   std::optional<ddprun::CheckpointOwner> self = std::nullopt,
                   FolderOwnerOptions owner = {});

  // FolderOwner's, when the last checkpoint is finished.
  bool TryClaim();
  void Release();
  std::chrono::milliseconds look() const { return owner_.look(); }

  // Whether this object has put a checkpoint of that step on disk.
  bool HasSaved(std::int64_t step) const;

  // Begins to write; waits first if another one is not finished. What `image` points to must stay
  // as it is until Wait() returns, or busy() is false.
  void Start(CheckpointImage image);

  bool busy() const;  // a checkpoint is not finished
  void Wait();        // until none is

  // A save that failed before there was anything to write.
  void Fail(std::int64_t step, const std::string& reason);
  void CountSkipped();

  SaveStatus status() const;

 private:
  void Write(CheckpointImage image);

  // Constant after construction.
  const std::string directory_;
  const Retention retention_;
  const Events events_;

  // The writer's thread's, or its owner's while that one is idle.
  FolderOwner owner_;
  bool folder_was_there_ = false;

  mutable std::mutex mutex_;
  SaveStatus status_;  // guarded by mutex_, but for `writing`, which is the thread's busy()
  std::set<std::int64_t> saved_;  // guarded by mutex_: steps

  ddprun::TaskQueue thread_{"ddp-checkpoint"};  // the last member: ends before all others
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_WRITER_H_
