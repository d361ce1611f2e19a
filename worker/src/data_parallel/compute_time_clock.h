// Measures how long a rank computes in each training step, without the time in collectives. A
// measurement goes from the end of one step's communication to the first gradient bucket of the
// next step.
//
// On the CPU it uses the host's clock, minus TimeInCollectives(). On a GPU it uses events on the
// streams, because the host runs ahead of the GPU. There it excludes only the broadcast of buffers.
//
// The thread that runs the steps and autograd's threads use it in turns, never at the same time.
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
  // `device` is the device of the gradients.
  explicit ComputeTimeClock(c10::Device device);

  // Call it when the communication of a step has ended and the next step begins. Returns the time
  // of one step. On the CPU this is the step that ended. On a GPU it is an earlier step, because
  // the thread would have to wait for the GPU to read the newest one. nullopt: that step was not
  // measured completely.
  std::optional<std::chrono::nanoseconds> CommunicationEnded();

  // Call it when a gradient of the first bucket is ready. The last call of a step counts.
  void FirstBucketReady();

  // Call them before and after the broadcast of buffers that precedes a forward.
  void BroadcastBegins();
  void BroadcastEnded();

  // Excludes the current step from the measurement.
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
  std::vector<Step> steps_;  // the newest steps, as a ring
  std::size_t now_ = 0;      // index of the current step in steps_
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_COMPUTE_TIME_CLOCK_H_
