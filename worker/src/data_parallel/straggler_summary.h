// The straggler summaries of DistributedDataParallel (a straggler is a rank for which the others
// wait). This class measures the steps of this rank, exchanges the times with the other ranks at
// the end of each window of steps, and reports the result on rank 0.
//
// The thread that runs the steps and autograd's threads use it in turns, never at the same time.
// Its collective begins at the end of a step's last all-reduce, in the same steps on all ranks. So
// it has the same place in every rank's sequence of collectives. Its result is read one step later,
// so that no rank waits for it.
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
  // A collective. `ctx` must outlive this object. `every` is the number of steps in a window (rank
  // 0's value counts). 0: no summaries.
  StragglerSummaries(const Context& ctx, int every);
  // Waits for a pending exchange, unless an exception is unwinding.
  ~StragglerSummaries();
  StragglerSummaries(const StragglerSummaries&) = delete;
  StragglerSummaries& operator=(const StragglerSummaries&) = delete;

  ComputeTimeClock& clock() { return clock_; }

  // Call it when an averaging backward has ended on this rank.
  void StepEnded();

  // Call it instead of StepEnded() in join(), where some ranks may take part without computing. The
  // step is not counted.
  void UncountedStepEnded() { clock_.Skip(); }

  const StragglerSummary& newest() const { return newest_; }

 private:
  void Begin();    // begins to exchange the times
  void Collect();  // reads the exchanged times
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
