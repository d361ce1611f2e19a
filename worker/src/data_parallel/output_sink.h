// A place in the autograd graph between a module and what its caller makes of the result.
#ifndef DDPRUN_WORKER_SRC_DATA_PARALLEL_OUTPUT_SINK_H_
#define DDPRUN_WORKER_SRC_DATA_PARALLEL_OUTPUT_SINK_H_

#include <torch/types.h>

#include <functional>
#include <vector>

namespace ddp::internal {

// Replaces those of `tensors` that have a grad_fn by copies that go through one common node; leaves
// the others alone. When a backward pass reaches any of the copies it goes on through all of them,
// with undefined gradients where a copy was not used; so the parameters behind a result that the
// loss does not use are reported to the Reducer as well, instead of being waited for for ever.
// `on_backward` (may be empty) is called when the pass begins, on the thread that runs it.
//
// _DDPSink of PyTorch (torch/nn/parallel/distributed.py).
void PassThroughSink(std::vector<torch::Tensor>* tensors, std::function<void()> on_backward);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_OUTPUT_SINK_H_
