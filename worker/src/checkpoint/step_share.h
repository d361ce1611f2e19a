// Gives each process the part of a step that differs between ranks, so that any process can make an
// exact snapshot of the step (CheckpointerOptions::share_each_step). The part consists of the
// random generators of all ranks and the buffers of rank 0.
//
// The ranks exchange it when ddp::OptimizerStep begins, before the parameters change. So if a rank
// is lost during the exchange, each other process is in one of two states. Either it has the result
// of this step, and finishes the step. Or it has only the result of the step before, and its
// parameters are also those of the step before. In a program without OptimizerStep the ranks
// exchange it at the end of the step. If a rank is lost before that, the result of the finished
// step is missing.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_STEP_SHARE_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_STEP_SHARE_H_

#include <ddp/context.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/src/data_parallel/model_sync.h"

namespace ddp::internal {

// The part of a step that differs between ranks. Nobody changes these tensors later.
struct SharedStep {
  std::vector<torch::Tensor> generators;  // GatherRngBytes()
  std::vector<torch::Tensor> buffers;     // rank 0's, in the order of Buffers()
};

// Only the training thread uses it. At most one object exists in a process.
class StepShare {
 public:
  // `ctx` must outlive this object.
  explicit StepShare(const Context& ctx);
  ~StepShare();
  StepShare(const StepShare&) = delete;
  StepShare& operator=(const StepShare&) = delete;

  // Call it when training begins. An OptimizerStep before this call exchanges nothing.
  void Begin(const torch::nn::Module& module);
  // Call it when a step is finished. Returns the result of this step. Exchanges it now if no
  // OptimizerStep has done so, or if gradients were averaged after that exchange. In the second
  // case another forward pass may have changed generators and buffers (LBFGS calls forward in its
  // step). A collective.
  SharedStep Finish(const torch::nn::Module& module);

 private:
  void Exchange();

  const Context& ctx_;
  bool begun_ = false;
  std::vector<torch::Tensor> buffers_;  // of the module
  std::optional<SharedStep> unfinished_;
  std::uint64_t averages_ = 0;  // ParameterWatch::averages() at the last exchange
  PackedBroadcast broadcast_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_STEP_SHARE_H_
