// Makes snapshots of a training in memory, mostly in the background.
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

// One thread, the owner, calls all functions. At the first failure the writer warns, and this
// process makes no more snapshots (usable()). A failure never ends the training.
class SnapshotWriter {
 public:
  // A snapshot is complete. `took` is the time since Publish().
  using Published = std::function<void(std::int64_t step, std::chrono::nanoseconds took)>;

  // `rank` is for warnings. The writer's thread calls `published`. `keep_step`: see SnapshotSlots.
  SnapshotWriter(std::string folder, int rank, std::optional<std::int64_t> keep_step,
                 Published published);

  bool usable() const { return usable_; }

  // On the writer's thread: allocates memory for states of `bytes` bytes, then calls `also`, unless
  // it is null. If `also` throws, this process makes no more snapshots.
  void Prepare(std::size_t bytes, std::function<void()> also = nullptr);

  // True if the memory is allocated and no snapshot is unfinished.
  bool ready() const { return usable_ && prepared_ && thread_.idle(); }

  // Returns the memory for a snapshot. Null: not available. Call it only while ready().
  std::byte* Begin(std::size_t bytes);
  // Hashes and publishes the written bytes, on the writer's thread.
  void Publish(CheckpointImage image);
  // Waits until all work is done.
  void Wait() { thread_.Wait(); }

  // Cost of the last finished snapshot: CPU time of the writer's thread, and time of a GPU's copy.
  std::chrono::nanoseconds background_time() const;
  // Step of the newest complete snapshot. -1: none.
  std::int64_t newest_step() const { return newest_step_; }

 private:
  void GiveUp(const std::string& reason);

  // Constant after construction.
  const int rank_;
  const Published published_;

  SnapshotSlots slots_;  // used by the thread while it is busy
  std::atomic<bool> usable_{true};
  std::atomic<bool> prepared_{false};
  std::atomic<std::int64_t> background_ns_{0};
  std::atomic<std::int64_t> newest_step_{-1};

  ddprun::TaskQueue thread_{"ddp-snapshot"};  // last, so it ends before the other members
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_WRITER_H_
