// Mixed precision like Python's torch.autocast. libtorch has only a part of it for C++.
#ifndef DDPRUN_WORKER_EXAMPLES_GPT_AUTOCAST_H_
#define DDPRUN_WORKER_EXAMPLES_GPT_AUTOCAST_H_

#include <ATen/autocast_mode.h>

#include "worker/src/compat/compat.h"

namespace gpt {

// While this object exists, and if `enabled`, this thread runs those CUDA operations in bfloat16
// that gain from it, such as matrix products. Sums, softmax and the loss stay in float32. Let it
// exist during forward and the computation of the loss; backward uses the dtypes of forward.
// bfloat16 has the range of float32, so gradients need no scaling. Does not nest.
class [[nodiscard]] Autocast {
 public:
  explicit Autocast(bool enabled) : enabled_(enabled) {
    if (!enabled_) return;
    ddp::compat::SetCudaAutocast(true, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!enabled_) return;
    // Autocast converts parameters once per forward and caches the result. Clear the cache, so that
    // the next forward uses the new values.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    ddp::compat::SetCudaAutocast(false, at::kBFloat16);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool enabled_;
};

}  // namespace gpt

#endif  // DDPRUN_WORKER_EXAMPLES_GPT_AUTOCAST_H_
