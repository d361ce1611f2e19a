// The state of a training as named tensors and texts, and back: what a checkpoint holds beside the
// place in the training and the generators. It knows nothing of files.
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

// All tensors of the module and of the optimizer's state, which they share storage with, under
// `model.` and `optim.`. Throws CheckpointError for an optimizer whose state cannot be read.
std::vector<NamedTensor> TensorsOf(const CheckpointParts& parts);

// The module's buffers among `tensors`, which TensorsOf(parts) gave; on ranks other than 0 copies
// of them, which take their place there: for values of rank 0.
std::vector<torch::Tensor> BuffersAmong(const CheckpointParts& parts,
                                        std::vector<NamedTensor>* tensors, int rank);

// The rest: `lr`, `lr_steps`, `sampler`, `buckets`. A collective where the parts have a reducer.
Texts TextsOf(const CheckpointParts& parts);

// What is to be done to put a state into the parts; made before anything is changed.
class RestorePlan {
 public:
  RestorePlan() = default;

  // `tensors`: a state's; only names, shapes and dtypes count. The parts must outlive the plan.
  // Throws CheckpointError if the state does not fit.
  RestorePlan(const CheckpointParts& parts, const std::vector<TensorInfo>& tensors, Texts texts);

  // Where the values of each of `tensors` are to be put, in their order: the module's own tensors,
  // and what will be the optimizer's; undefined where nobody wants them. Makes the latter.
  std::vector<torch::Tensor> Destinations();

  // When the values are there: the rest.
  void Finish();

 private:
  const CheckpointParts* parts_ = nullptr;  // the caller's
  std::vector<TensorInfo> tensors_;
  TensorMap model_;      // by the state's name of it: the module's
  TensorMap optimizer_;  // by the name without kOptimizerPrefix; before Destinations() without data
  Texts texts_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_TRAINING_STATE_H_
