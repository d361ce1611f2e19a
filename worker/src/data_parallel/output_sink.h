// A node in the autograd graph between a module and the use of its result.
#ifndef DDPRUN_WORKER_SRC_DATA_PARALLEL_OUTPUT_SINK_H_
#define DDPRUN_WORKER_SRC_DATA_PARALLEL_OUTPUT_SINK_H_

#include <torch/types.h>

#include <functional>
#include <vector>

namespace ddp::internal {

// Replaces each tensor in `tensors` that has a grad_fn by a copy that goes through one common node,
// and leaves the other tensors unchanged. A backward that reaches any copy continues through all
// copies, with undefined gradients for unused copies. So the Reducer also hears of parameters
// behind an unused result; otherwise it would wait for them for ever. `on_backward` (may be empty)
// is called when the backward reaches the node, on the thread that runs the node.
//
// Source: _DDPSink of PyTorch (torch/nn/parallel/distributed.py).
void PassThroughSink(std::vector<torch::Tensor>* tensors, std::function<void()> on_backward);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_OUTPUT_SINK_H_
