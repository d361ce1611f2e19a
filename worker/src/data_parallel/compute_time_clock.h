// How long a rank computes in each training step, collectives excluded: from the end of the
// communication of one step to the first gradient bucket of the next.
//
// On the CPU by the host's clock, less TimeInCollectives(). On a GPU by events on its streams, for
// the host runs ahead of it; only the broadcast of buffers is left out there.
//
// Used in turns by the thread that runs the steps and by autograd's, never at once.
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
  // `device`: where gradients are.
  explicit ComputeTimeClock(c10::Device device);

  // A step's communication is over, and the next step begins. Returns the time of a step: on the
  // CPU of the one that has ended, on a GPU of an earlier one, so that nobody waits for the GPU;
  // nothing where that was not measured as a whole.
  std::optional<std::chrono::nanoseconds> CommunicationEnded();

  // A gradient of the first bucket is ready. The last one of a step counts.
  void FirstBucketReady();

  // Around the broadcast of buffers before a forward.
  void BroadcastBegins();
  void BroadcastEnded();

  // The step that is under way is not measured.
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
  std::size_t now_ = 0;      // of them, the one that is under way
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_COMPUTE_TIME_CLOCK_H_
