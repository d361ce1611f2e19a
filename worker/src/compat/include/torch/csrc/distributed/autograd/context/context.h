// Replaces a header that c10d/reducer.hpp includes and that some packages of libtorch 1.13
// (Debian's) lack. It is on the include path only if the real header is missing. It declares only
// what reducer.hpp names; libtorch has the definitions.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace torch::distributed::autograd {

class DistAutogradContext {
 public:
  using GradCallback = std::function<bool(at::Tensor&)>;
};

using ContextPtr = std::shared_ptr<DistAutogradContext>;

}  // namespace torch::distributed::autograd
