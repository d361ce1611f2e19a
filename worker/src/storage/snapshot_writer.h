// Makes snapshots of a training in memory, as far as possible behind its back.
#ifndef DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_WRITER_H_
#define DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_WRITER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "worker/contract/task_queue.h"
#include "worker/src/storage/snapshot_slots.h"

namespace ddp::internal {

// All functions on one thread, which owns this. Whatever goes wrong is warned of once and ends the
// snapshots of this process, never the training: usable().
class SnapshotWriter {
 public:
  // Of a snapshot that is whole; `took`: since Publish() had it.
  using Published = std::function<void(std::int64_t step, std::chrono::nanoseconds took)>;

  // `rank`: who warns. `published`: called on a thread of this class.
  // `keep_step`: see SnapshotSlots.
  SnapshotWriter(std::string folder, int rank, std::optional<std::int64_t> keep_step,
                 Published published);

  bool usable() const { return usable_; }

  // Gets the memory for states of `bytes` bytes, on the thread, and calls `also` there, unless
  // null; what that throws ends the snapshots too.
  void Prepare(std::size_t bytes, std::function<void()> also = nullptr);

  // The memory is there, and no snapshot is being finished.
  bool ready() const { return usable_ && prepared_ && thread_.idle(); }

  // Where the bytes of a snapshot go; null if there is no such memory. Only when ready().
  std::byte* Begin(std::size_t bytes);
  // Hashes and publishes what was written there, on the thread.
  void Publish(CheckpointImage image);
  // Until all that was begun is done.
  void Wait() { thread_.Wait(); }

  // What the last snapshot took: CPU time of the thread, and the time of a GPU's copy.
  std::chrono::nanoseconds background_time() const;
  // Of the newest that is whole; -1 if there is none.
  std::int64_t newest_step() const { return newest_step_; }

 private:
  void GiveUp(const std::string& reason);

  // Constant after construction.
  const int rank_;
  const Published published_;

  SnapshotSlots slots_;  // the thread's while it is busy
  std::atomic<bool> usable_{true};
  std::atomic<bool> prepared_{false};
  std::atomic<std::int64_t> background_ns_{0};
  std::atomic<std::int64_t> newest_step_{-1};

  ddprun::TaskQueue thread_{"ddp-snapshot"};  // the last member: ends before all others
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_WRITER_H_
