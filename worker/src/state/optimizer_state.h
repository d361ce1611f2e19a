// Converts the state of libtorch's optimizers to named tensors, and back.
#ifndef DDPRUN_WORKER_SRC_STATE_OPTIMIZER_STATE_H_
#define DDPRUN_WORKER_SRC_STATE_OPTIMIZER_STATE_H_

#include <torch/optim/optimizer.h>

#include <map>
#include <string>
#include <vector>

#include "worker/src/data_parallel/model_sync.h"

namespace ddp::internal {

// Names are `<index of the parameter, over all groups>.<field>`, for example `0.exp_avg`. Numbers
// become tensors without dimensions. Other tensors share storage with the optimizer. Throws
// CheckpointError unless the optimizer is SGD, Adam, AdamW, RMSprop, Adagrad or LBFGS.
std::vector<NamedTensor> ExportOptimizerState(const torch::optim::Optimizer& optimizer);

// Says why the state does not fit `optimizer`. "": it fits. Compares names, shapes and dtypes (for
// LBFGS: names and numbers of elements).
std::string OptimizerStateMismatch(const torch::optim::Optimizer& optimizer,
                                   const std::map<std::string, torch::Tensor>& state);

// Replaces the optimizer's state. If `state` does not name a parameter, that parameter has no state
// afterwards.
void ImportOptimizerState(torch::optim::Optimizer& optimizer,
                          const std::map<std::string, torch::Tensor>& state);

// The learning rate of each parameter group.
std::vector<double> LearningRates(const torch::optim::Optimizer& optimizer);

// `rates` has one value per group. If it is empty, nothing changes.
void SetLearningRates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_OPTIMIZER_STATE_H_
