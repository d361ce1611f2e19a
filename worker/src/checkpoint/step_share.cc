#include "worker/src/checkpoint/step_share.h"

#include <utility>

#include "worker/src/agent/parameter_watch.h"
#include "worker/src/state/rng_state.h"

namespace ddp::internal {

StepShare::StepShare(const Context& ctx) : ctx_(ctx) {
  ParameterWatch::Process().BeforeOptimizerStep(this, [this] {
    if (begun_) Exchange();
  });
}

StepShare::~StepShare() { ParameterWatch::Process().Leave(this); }

void StepShare::Begin(const torch::nn::Module& module) {
  begun_ = true;
  unfinished_.reset();
  buffers_.clear();
  for (const NamedTensor& buffer : Buffers(module)) buffers_.push_back(buffer.tensor);
}

SharedStep StepShare::Finish(const torch::nn::Module& module) {
  if (!unfinished_ || averages_ != ParameterWatch::Process().averages()) {
    Begin(module);
    Exchange();
  }
  SharedStep step = *std::exchange(unfinished_, std::nullopt);
  Begin(module);  // the module may have other buffers by now
  return step;
}

void StepShare::Exchange() {
  unfinished_.reset();
  SharedStep step;
  step.generators = GatherRngBytes(ctx_, torch::Device(torch::kCPU));
  for (const torch::Tensor& buffer : buffers_) {
    const torch::Tensor own = buffer.detach();
    step.buffers.push_back(ctx_.rank() == 0 ? own.clone() : torch::empty_like(own));
  }
  broadcast_.From(0, ctx_, step.buffers);
  unfinished_ = std::move(step);
  averages_ = ParameterWatch::Process().averages();
}

}  // namespace ddp::internal
