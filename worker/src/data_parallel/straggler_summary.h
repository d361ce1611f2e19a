// The straggler summaries of DistributedDataParallel: measures this rank's steps, exchanges the
// times at the end of each window, and reports the result on rank 0.
//
// The thread that runs the steps and autograd's threads use it in turns, never at once. Its
// collective begins where the last all-reduce of a step has ended, in steps that all ranks share,
// so it has the same place among the collectives of every rank. Its result is collected one step
// later, when it has completed.
#ifndef DDPRUN_WORKER_SRC_DATA_PARALLEL_STRAGGLER_SUMMARY_H_
#define DDPRUN_WORKER_SRC_DATA_PARALLEL_STRAGGLER_SUMMARY_H_

#include <ddp/context.h>
#include <ddp/data_parallel_options.h>
#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "worker/src/data_parallel/compute_time_clock.h"
#include "worker/src/peers/straggler_watch.h"

namespace ddp::internal {

class StragglerSummaries {
 public:
  // A collective. `ctx` is the user's and outlives this. `every`: steps of a window; rank 0's value
  // counts; 0: no summaries.
  StragglerSummaries(const Context& ctx, int every);
  // Waits for a pending exchange, unless an exception is unwinding.
  ~StragglerSummaries();
  StragglerSummaries(const StragglerSummaries&) = delete;
  StragglerSummaries& operator=(const StragglerSummaries&) = delete;

  ComputeTimeClock& clock() { return clock_; }

  // An averaging backward has ended on this rank.
  void StepEnded();

  // StepEnded() for a step that some ranks took part in without computing: not counted.
  void UncountedStepEnded() { clock_.Skip(); }

  const StragglerSummary& newest() const { return newest_; }

 private:
  void Begin();    // begins the exchange of times
  void Collect();  // collects the exchanged times
  void Report(const StragglerWatch::Verdict& verdict) const;
  std::string HostOf(int rank) const;

  const Context& ctx_;
  int every_;
  const int exceptions_at_start_ = std::uncaught_exceptions();
  ComputeTimeClock clock_;
  std::int64_t steps_ = 0;
  std::vector<std::chrono::nanoseconds> window_;

  std::int64_t exchanged_step_ = 0;  // the last step of the window being exchanged
  torch::Tensor exchanged_;          // two numbers per rank
  std::function<void()> pending_;    // waits for the exchange; null: none pending
  StragglerWatch watch_;
  StragglerSummary newest_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_STRAGGLER_SUMMARY_H_
