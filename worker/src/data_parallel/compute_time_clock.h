// Measures how long a rank computes in each training step, without collectives: from the end of one
// step's communication to the first gradient bucket of the next.
//
// On the CPU it uses the host's clock, minus TimeInCollectives(). On a GPU it uses events on the
// streams, because the host runs ahead of the GPU; there only the broadcast of buffers is excluded.
//
// The thread that runs the steps and autograd's threads use it in turns, never at once.
#ifndef DDPRUN_WORKER_SRC_DATA_PARALLEL_COMPUTE_TIME_CLOCK_H_
#define DDPRUN_WORKER_SRC_DATA_PARALLEL_COMPUTE_TIME_CLOCK_H_

#include <c10/core/Device.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#include <vector>

namespace ddp::internal {

class ComputeTimeClock {
 public:
  // `device`: of the gradients.
  explicit ComputeTimeClock(c10::Device device);

  // The communication of a step has ended, and the next step begins. Returns the time of a step: on
  // the CPU of the step that ended; on a GPU of an earlier step, so that no thread waits for the
  // GPU. nullopt: that step was not measured completely.
  std::optional<std::chrono::nanoseconds> CommunicationEnded();

  // A gradient of the first bucket is ready. The last call of a step counts.
  void FirstBucketReady();

  // Begin and end of the broadcast of buffers before a forward.
  void BroadcastBegins();
  void BroadcastEnded();

  // Excludes the present step from the measurement.
  void Skip();

 private:
  struct Step {
    std::unique_ptr<c10d::Timer> timer;
    bool has_begun = false;
    bool has_bucket = false;
    bool has_broadcast = false;
    std::chrono::nanoseconds in_collectives_at_begin{0};
    std::chrono::nanoseconds in_collectives_at_bucket{0};
  };

  static std::optional<std::chrono::nanoseconds> TimeOf(Step& step, bool on_gpu);

  const bool on_gpu_;
  std::vector<Step> steps_;  // the newest ones, in a ring
  std::size_t now_ = 0;      // index of the present step in steps_
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_COMPUTE_TIME_CLOCK_H_
