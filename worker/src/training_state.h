// The state of a training as named tensors and texts, and back: what a checkpoint holds beside the
// place in the training and the generators. It knows nothing of files.
#ifndef DDPRUN_WORKER_SRC_TRAINING_STATE_H_
#define DDPRUN_WORKER_SRC_TRAINING_STATE_H_

#include <ddp/checkpoint_parts.h>
#include <ddp/context.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/model_sync.h"

namespace ddp::internal {

using Texts = std::map<std::string, std::string>;
using TensorMap = std::map<std::string, torch::Tensor>;

// All tensors of the module and of the optimizer's state, which they share storage with, under
// `model.` and `optim.`. Throws CheckpointError for an optimizer whose state cannot be read.
std::vector<NamedTensor> TensorsOf(const CheckpointParts& parts);

// The rest: `lr`, `lr_steps`, `sampler`, `buckets`. A collective where the parts have a reducer.
Texts TextsOf(const CheckpointParts& parts);

// What is to be done to put a state into the parts; made before anything is changed.
class RestorePlan {
 public:
  RestorePlan() = default;

  // `tensors`: a file's; rank 0's have the values, the others' only the same shapes and dtypes.
  // They and the parts must outlive the plan. Throws CheckpointError if the state does not fit.
  RestorePlan(const CheckpointParts& parts, const TensorMap& tensors, Texts texts);

  // Gives every rank rank 0's values. A collective.
  void Apply(const Context& ctx);

 private:
  const CheckpointParts* parts_ = nullptr;                      // the caller's
  std::vector<std::pair<torch::Tensor, torch::Tensor>> model_;  // from the file, into the module
  TensorMap optimizer_;
  Texts texts_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_TRAINING_STATE_H_
