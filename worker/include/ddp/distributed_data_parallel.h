// DistributedDataParallel for any torch::nn::Module, as torch.nn.parallel.DistributedDataParallel.
//
// Each rank holds a copy of the module and runs it on its own part of the data; backward() leaves
// in every parameter's gradient the mean over all ranks, so equal optimizers keep the copies equal.
// The work is done by c10d::Reducer, the engine of PyTorch's own class: gradients are gathered
// into buckets and each bucket is all-reduced as soon as it is full, while backward goes on.
#ifndef DDP_DISTRIBUTED_DATA_PARALLEL_H_
#define DDP_DISTRIBUTED_DATA_PARALLEL_H_

#include <ddp/context.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace ddp {

// Names and defaults are those of the Python class (torch/nn/parallel/distributed.py).
struct DataParallelOptions {
  // Broadcast rank 0's buffers (BatchNorm's statistics) before a forward that follows one with
  // gradients.
  bool broadcast_buffers = true;

  // Let gradients be views into the buckets: saves a copy of all gradients. Clear them with
  // DistributedDataParallel::zero_grad() then; Optimizer::zero_grad() of libtorch 1.13 throws.
  bool gradient_as_bucket_view = false;

  // Size of a bucket in bytes. The first one is small, so that communication starts early.
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
};

namespace detail {

// The part that does not depend on the module's type. One thread, as DistributedDataParallel.
class GradientReducer {
 public:
  GradientReducer(const Context& ctx, const torch::nn::Module& module,
                  const DataParallelOptions& options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  void before_forward();
  void after_forward();
  void sync_buffers();
  void zero_grad();
  std::vector<std::size_t> bucket_sizes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

// `Module` derives from torch::nn::Module and has a forward(); its arguments and its result may be
// of any type. Not copyable. One thread at a time; the collectives inside (constructor, forward,
// backward) must be reached in the same order on all ranks.
template <typename Module>
class DistributedDataParallel {
 public:
  // `module` must be on ctx.device() already, and its set of parameters must not change
  // afterwards; parameters that do not require a gradient now are left alone later too.
  // `ctx` must outlive this object.
  //
  // Compares the parameters and buffers (number, names, shapes, dtypes) with rank 0's, then gives
  // every rank the values of rank 0. A difference throws AgreedError on every rank; its text
  // names the first parameter that differs, and the rank.
  DistributedDataParallel(const Context& ctx, std::shared_ptr<Module> module,
                          const DataParallelOptions& options = DataParallelOptions())
      : module_(std::move(module)), reducer_(ctx, *module_, options) {}

  // The same for a holder made by TORCH_MODULE(Net): DistributedDataParallel<NetImpl>(ctx, net).
  DistributedDataParallel(const Context& ctx, const torch::nn::ModuleHolder<Module>& holder,
                          const DataParallelOptions& options = DataParallelOptions())
      : DistributedDataParallel(ctx, holder.ptr(), options) {}

  // Runs module->forward(args...). With gradients enabled it must be followed by one backward()
  // from its result before the next forward, in which every parameter takes part (libtorch's
  // message says so if one did not). A CollectiveError of a peer that died may come out of
  // backward() as libtorch's own exception; ddp::run() knows those.
  template <typename... Args>
  auto forward(Args&&... args) {
    reducer_.before_forward();
    auto result = module_->forward(std::forward<Args>(args)...);
    reducer_.after_forward();
    return result;
  }
  template <typename... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  // The wrapped module. Running it directly does no communication: right for evaluation.
  Module& module() { return *module_; }
  const Module& module() const { return *module_; }
  Module* operator->() { return module_.get(); }

  // Sets gradients to zero in place, which is right with and without gradient_as_bucket_view.
  void zero_grad() { reducer_.zero_grad(); }

  // Gives every rank the buffers of rank 0 now: before an evaluation, because the statistics of
  // BatchNorm differ between ranks after a training step. A collective.
  void sync_buffers() { reducer_.sync_buffers(); }

  // Bytes of each gradient bucket, in the order in which they are reduced.
  std::vector<std::size_t> bucket_sizes() const { return reducer_.bucket_sizes(); }

 private:
  std::shared_ptr<Module> module_;
  detail::GradientReducer reducer_;
};

}  // namespace ddp

#endif  // DDP_DISTRIBUTED_DATA_PARALLEL_H_
