// Converts the state of a training to named tensors and texts, and back. The place in the training
// and the random generators are not included. This code knows nothing of files.
#ifndef DDPRUN_WORKER_SRC_STATE_TRAINING_STATE_H_
#define DDPRUN_WORKER_SRC_STATE_TRAINING_STATE_H_

#include <ddp/checkpoint_parts.h>
#include <ddp/context.h>

#include <map>
#include <string>
#include <vector>

#include "worker/src/data_parallel/model_sync.h"
#include "worker/src/formats/safetensors.h"

namespace ddp::internal {

using Texts = std::map<std::string, std::string>;
using TensorMap = std::map<std::string, torch::Tensor>;

// All tensors of the module (prefix `model.`) and of the optimizer's state (prefix `optim.`). They
// share storage with the originals, except the optimizer's counts and numbers. Throws
// CheckpointError if the optimizer's state cannot be read.
std::vector<NamedTensor> TensorsOf(const CheckpointParts& parts);

// Returns the module's buffers in `tensors`, which is the result of TensorsOf(parts). On ranks
// other than 0, replaces them in `tensors` by new ones, which will receive rank 0's values.
std::vector<torch::Tensor> BuffersAmong(const CheckpointParts& parts,
                                        std::vector<NamedTensor>* tensors, int rank);

// The texts `lr`, `lr_steps`, `sampler`, `buckets`. A collective if the parts have a reducer.
Texts TextsOf(const CheckpointParts& parts);

// The plan of loading a state into the parts. It is made before anything changes.
class RestorePlan {
 public:
  RestorePlan() = default;

  // `tensors` are the tensors of a state; only names, shapes and dtypes are used. The parts must
  // outlive the plan. Throws CheckpointError if the state does not fit the parts.
  RestorePlan(const CheckpointParts& parts, const std::vector<TensorInfo>& tensors, Texts texts);

  // Where to load each of `tensors`, in the same order: into a tensor of the module, or into a
  // tensor for the optimizer's state. For the optimizer this call reuses the tensors that fit, and
  // makes the missing ones. Undefined: do not load that tensor.
  std::vector<torch::Tensor> Destinations();

  // Call it when the destinations are filled. Loads the rest of the state.
  void Finish();

 private:
  const CheckpointParts* parts_ = nullptr;  // the caller's
  std::vector<TensorInfo> tensors_;
  TensorMap model_;      // the module's tensors, by their name in the state
  TensorMap optimizer_;  // names without kOptimizerPrefix; without data before Destinations()
  Texts texts_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_TRAINING_STATE_H_
