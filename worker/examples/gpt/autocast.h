// Mixed precision, as torch.autocast of Python, which libtorch has for C++ in parts only.
#ifndef DDPRUN_WORKER_EXAMPLES_GPT_AUTOCAST_H_
#define DDPRUN_WORKER_EXAMPLES_GPT_AUTOCAST_H_

#include <ATen/autocast_mode.h>

#include "worker/src/compat/compat.h"

namespace gpt {

// While it lives, and if `enabled`, this thread's CUDA operations that gain by it run in bfloat16:
// matrix products, but no sums, no softmax and no loss. For forward and loss; backward follows what
// forward did. bfloat16 has float32's range, so that gradients need no scaling. Not nested.
class [[nodiscard]] Autocast {
 public:
  explicit Autocast(bool enabled) : enabled_(enabled) {
    if (!enabled_) return;
    ddp::compat::SetCudaAutocast(true, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!enabled_) return;
    // Parameters are cast once for each forward: the next one must see their new values.
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
