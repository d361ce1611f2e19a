// DistributedDataParallel's summaries of who keeps the others waiting: measures this rank's steps,
// puts the ranks' times together at the end of each window, and on rank 0 says what came out.
//
// Used in turns by the thread that runs the steps and by autograd's, never at once. Its collective
// is begun where a step's last all-reduce has ended, in steps that the ranks have in common
// whatever else they do, so it has the same place among their collectives on every rank. It is
// waited for a step later, when it is over.
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
  // `ctx` is the user's, and outlives this. A collective. `every`: steps of a window, of rank 0;
  // 0: there will be no summaries.
  StragglerSummaries(const Context& ctx, int every);
  // Waits for what has begun, unless an exception is on its way.
  ~StragglerSummaries();
  StragglerSummaries(const StragglerSummaries&) = delete;
  StragglerSummaries& operator=(const StragglerSummaries&) = delete;

  ComputeTimeClock& clock() { return clock_; }

  // An averaging backward is over on this rank.
  void StepEnded();

  // The same, of one that some ranks have taken part in without computing: it does not count.
  void UncountedStepEnded() { clock_.Skip(); }

  const StragglerSummary& newest() const { return newest_; }

 private:
  void Begin();    // of the exchange of times
  void Collect();  // what has been exchanged
  void Report(const StragglerWatch::Verdict& verdict) const;
  std::string HostOf(int rank) const;

  const Context& ctx_;
  int every_;
  const int exceptions_at_start_ = std::uncaught_exceptions();
  ComputeTimeClock clock_;
  std::int64_t steps_ = 0;
  std::vector<std::chrono::nanoseconds> window_;

  std::int64_t exchanged_step_ = 0;  // the last of the window whose times are on their way
  torch::Tensor exchanged_;          // of each rank two numbers
  std::function<void()> pending_;    // waits for them; null: none are
  StragglerWatch watch_;
  StragglerSummary newest_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_STRAGGLER_SUMMARY_H_
