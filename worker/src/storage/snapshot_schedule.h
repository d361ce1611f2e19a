// How often a snapshot may be made without a noticeable cost. Pure code: callers pass the times.
#ifndef DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_SCHEDULE_H_
#define DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_SCHEDULE_H_

#include <chrono>
#include <cstdint>

namespace ddp::internal {

// The schedule of one rank. The ranks use the largest of their intervals.
class SnapshotSchedule {
 public:
  using Duration = std::chrono::nanoseconds;

  // The share of training time that snapshots may take.
  static constexpr double kShare = 0.01;

  // The interval is `every_steps`, if that is not 0. Otherwise it is `every`, if that is not 0.
  // Otherwise it follows from the cost.
  SnapshotSchedule(std::int64_t every_steps, Duration every)
      : every_steps_(every_steps), every_(every) {}

  // Call it after each step. `time` does not include the snapshot.
  void StepTook(Duration time);
  // The newest snapshot stopped training for `stall`. The last finished one kept another thread
  // busy for `background`.
  void SnapshotTook(Duration stall, Duration background);

  // Number of steps from one snapshot to the next; at least 1. Call it after StepTook(). Without
  // `every_steps` and `every` it is 1 until SnapshotTook().
  std::int64_t steps() const;

 private:
  const std::int64_t every_steps_;
  const Duration every_;
  Duration step_{0};  // mean; older steps weigh less
  Duration cost_{0};  // of a snapshot
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_SCHEDULE_H_
