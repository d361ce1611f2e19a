#include "worker/src/data_parallel/output_sink.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/compat/compat.h"

namespace ddp::internal {
namespace {

class Sink : public torch::autograd::Node {
 public:
  explicit Sink(std::function<void()> on_backward) : on_backward_(std::move(on_backward)) {}

  std::string name() const override { return "ddp::Sink"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (on_backward_) on_backward_();
    return std::move(gradients);
  }

 private:
  const std::function<void()> on_backward_;
};

}  // namespace

void PassThroughSink(std::vector<torch::Tensor>* tensors, std::function<void()> on_backward) {
  std::vector<torch::Tensor*> connected;
  torch::autograd::variable_list inputs;
  for (torch::Tensor& tensor : *tensors) {
    if (!tensor.defined() || tensor.grad_fn() == nullptr) continue;
    connected.push_back(&tensor);
    inputs.push_back(tensor);
  }
  if (connected.empty()) return;
  const auto sink = compat::MakeNode<Sink>(std::move(on_backward));
  sink->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (torch::Tensor* tensor : connected) {
    const c10::NoGradGuard no_grad;
    torch::Tensor copy = tensor->clone();
    torch::autograd::create_gradient_edge(copy, sink);
    *tensor = std::move(copy);
  }
}

}  // namespace ddp::internal
