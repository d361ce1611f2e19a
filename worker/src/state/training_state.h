// Converts the state of a training to named tensors and texts, and back: a checkpoint without the
// place in the training and the generators. Knows nothing of files.
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

// All tensors of the module and of the optimizer's state, under `model.` and `optim.`; they share
// storage. Throws CheckpointError for an optimizer whose state cannot be read.
std::vector<NamedTensor> TensorsOf(const CheckpointParts& parts);

// The module's buffers among `tensors`, the result of TensorsOf(parts). On ranks other than 0
// copies replace them in `tensors`, to receive rank 0's values.
std::vector<torch::Tensor> BuffersAmong(const CheckpointParts& parts,
                                        std::vector<NamedTensor>* tensors, int rank);

// The texts `lr`, `lr_steps`, `sampler`, `buckets`. A collective if the parts have a reducer.
Texts TextsOf(const CheckpointParts& parts);

// The plan of loading a state into the parts, made before anything is changed.
class RestorePlan {
 public:
  RestorePlan() = default;

  // `tensors`: of a state; only names, shapes and dtypes are used. The parts must outlive the plan.
  // Throws CheckpointError if the state does not fit.
  RestorePlan(const CheckpointParts& parts, const std::vector<TensorInfo>& tensors, Texts texts);

  // The destinations of `tensors`, in their order: the module's own tensors, and tensors that will
  // be the optimizer's state, which this call prepares; undefined: not wanted.
  std::vector<torch::Tensor> Destinations();

  // Call it when the destinations are filled: loads the rest.
  void Finish();

 private:
  const CheckpointParts* parts_ = nullptr;  // the caller's
  std::vector<TensorInfo> tensors_;
  TensorMap model_;      // the module's tensors, by their name in the state
  TensorMap optimizer_;  // by name without kOptimizerPrefix; without data before Destinations()
  Texts texts_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_TRAINING_STATE_H_
