// How often a snapshot may be made so that nobody notices. Pure: time comes in as arguments.
#ifndef DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_SCHEDULE_H_
#define DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_SCHEDULE_H_

#include <chrono>
#include <cstdint>

namespace ddp::internal {

// One rank's; the ranks take the longest of what theirs say.
class SnapshotSchedule {
 public:
  using Duration = std::chrono::nanoseconds;

  // Of the time of training, what snapshots may take.
  static constexpr double kShare = 0.01;

  // `every_steps`, if not 0, or else `every`, if not 0, say how often; else the cost does.
  SnapshotSchedule(std::int64_t every_steps, Duration every)
      : every_steps_(every_steps), every_(every) {}

  // A step has taken so long, without what snapshots took of it.
  void StepTook(Duration time);
  // The newest snapshot has held training up for `stall`, and made another thread work for
  // `background`.
  void SnapshotTook(Duration stall, Duration background);

  // Steps from one snapshot to the next; at least 1. As long as nothing is known of their cost: 1.
  std::int64_t steps() const;

 private:
  const std::int64_t every_steps_;
  const Duration every_;
  Duration step_{0};  // a mean in which what is longer ago counts less
  Duration cost_{0};  // of the newest
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_SCHEDULE_H_
