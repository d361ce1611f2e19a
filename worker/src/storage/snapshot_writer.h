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

// One thread, the owner, calls all functions. Any failure is warned of once and ends the snapshots
// of this process, never the training: usable().
class SnapshotWriter {
 public:
  // A snapshot is whole; `took`: since Publish().
  using Published = std::function<void(std::int64_t step, std::chrono::nanoseconds took)>;

  // `rank`: for warnings. `published`: called on the thread. `keep_step`: see SnapshotSlots.
  SnapshotWriter(std::string folder, int rank, std::optional<std::int64_t> keep_step,
                 Published published);

  bool usable() const { return usable_; }

  // On the thread: allocates memory for states of `bytes` bytes, then calls `also`, unless null;
  // its exceptions end the snapshots too.
  void Prepare(std::size_t bytes, std::function<void()> also = nullptr);

  // The memory is allocated, and no snapshot is unfinished.
  bool ready() const { return usable_ && prepared_ && thread_.idle(); }

  // The memory for a snapshot; null: not available. Only if ready().
  std::byte* Begin(std::size_t bytes);
  // Hashes and publishes the written bytes, on the thread.
  void Publish(CheckpointImage image);
  // Waits until all work is done.
  void Wait() { thread_.Wait(); }

  // The cost of the last snapshot: CPU time of the thread, plus the time of a GPU's copy.
  std::chrono::nanoseconds background_time() const;
  // Step of the newest whole snapshot; -1: none.
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

  ddprun::TaskQueue thread_{"ddp-snapshot"};  // the last member: ends before all others
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_WRITER_H_
