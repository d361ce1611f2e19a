// DistributedDataParallel for any torch::nn::Module, like
// torch.nn.parallel.DistributedDataParallel.
//
// Each rank has a copy of the module and runs it on its own part of the data. After backward(), the
// gradient of every parameter is the mean over all ranks. So equal optimizers keep the copies
// equal. c10d::Reducer, the engine of PyTorch's own class, does the work. It collects gradients in
// buckets. It all-reduces each bucket as soon as the bucket is full, while backward continues.
#ifndef DDP_DISTRIBUTED_DATA_PARALLEL_H_
#define DDP_DISTRIBUTED_DATA_PARALLEL_H_

#include <ddp/comm_hooks.h>
#include <ddp/context.h>
#include <ddp/data_parallel_options.h>
#include <ddp/output_tensors.h>
#include <ddp/verify.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddp {

class CheckpointParts;

// While an object of this class lives, gradients are not synchronized. Made by
// DistributedDataParallel::no_sync().
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(bool* synchronize) : synchronize_(synchronize), before_(*synchronize) {
    *synchronize_ = false;
  }
  ~NoSync() { *synchronize_ = before_; }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  bool* const synchronize_;  // the model's flag; the model outlives this object
  const bool before_;
};

namespace detail {

// The part of DistributedDataParallel that does not depend on the module's type. Only one thread at
// a time may use it, like DistributedDataParallel.
class GradientReducer {
 public:
  // Calls a visitor for each tensor of forward's result.
  using Outputs = std::function<void(const TensorVisitor& visit)>;

  GradientReducer(const Context& ctx, const torch::nn::Module& module,
                  const DataParallelOptions& options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  void before_forward();
  void after_forward(const Outputs& outputs);
  void sync_buffers();
  void register_comm_hook(CommHook hook);
  void join(const std::function<void()>& train, const JoinOptions& options);
  void zero_grad(bool set_to_none);
  const std::vector<torch::Tensor>& parameters() const;
  bool* synchronize();
  DataParallelStatistics statistics() const;
  const StragglerSummary& stragglers() const;
  std::vector<std::size_t> bucket_sizes() const;

  // Returns which parameters are in which bucket, as text for a checkpoint, equal on all ranks.
  // Returns "" if that is not known yet, or if the order never changes. A collective; call it
  // between steps. If the first step has found a new order, this call applies it now; without
  // this call, the next forward() would apply it.
  std::string bucket_order();
  // Uses the order `text` of bucket_order() from the next step on. No effect if the text is empty
  // or belongs to another model or bucket size, or if such an order is already in use. Call it on
  // all ranks with the same text, between steps.
  void set_bucket_order(const std::string& text);

 private:
  // For join(). A rank without inputs makes the same collectives in the same order.
  void tell_joined();                     // in each forward
  void tell_whether_gradients_follow();   // in each forward
  void shadow_step();                     // the collectives of other ranks' step, without inputs
  int highest_rank(bool eligible) const;  // the highest rank that is eligible
  void sync_buffers_from(int root);
  void send_all_from(int root);  // parameters, and buffers if they are sent at all

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

// `Module` derives from torch::nn::Module and has a forward() with any argument and result types.
// Not copyable. Only one thread at a time may use the object. Constructor, forward and backward
// contain collectives: all ranks must reach them in the same order.
template <typename Module>
class DistributedDataParallel {
 public:
  // `module` must already be on ctx.device(). After this call, do not replace any of its parameters
  // and buffers by another tensor (Python looks buffers up in each step; this class does not). The
  // gradients of a parameter that requires no gradient now are never averaged. `ctx` must outlive
  // this object, and this object must outlive every backward() from its results.
  //
  // A collective. It compares the parameters and buffers of each rank with those of rank 0: their
  // number, order, names, shapes, dtypes and strides, and which parameters require a gradient. If
  // there is a difference, every rank throws AgreedError (<ddp/errors.h>) with the same text, which
  // names the first tensor that differs, and the rank. All ranks also throw it if a parameter of
  // any rank is not on ctx.device(). Otherwise every rank gets the values of rank 0. Exception:
  // with libtorch 2.6 or newer and broadcast_buffers = false, the buffers are not sent. Throws
  // ConfigError for invalid options, and if no parameter requires a gradient.
  //
  // A tensor that is registered several times counts once, under its first name in the order of
  // named_parameters(): a module's own parameters come before those of its children, each in the
  // order of registration. The weights of torch::nn::Embedding and EmbeddingBag with sparse(true)
  // get sparse gradients.
  DistributedDataParallel(const Context& ctx, std::shared_ptr<Module> module,
                          const DataParallelOptions& options = DataParallelOptions())
      : ctx_(ctx), module_(std::move(module)), reducer_(ctx, *module_, options) {}

  // For a holder made by TORCH_MODULE(Net): DistributedDataParallel<NetImpl>(ctx, net).
  DistributedDataParallel(const Context& ctx, const torch::nn::ModuleHolder<Module>& holder,
                          const DataParallelOptions& options = DataParallelOptions())
      : DistributedDataParallel(ctx, holder.ptr(), options) {}

  // Runs module->forward(args...). With gradients enabled, the backward that follows must reach
  // every parameter exactly once, unless find_unused_parameters or static_graph is on. This
  // backward may be
  //   (a) one backward() from the result,
  //   (b) one backward() from the results of several forwards, or
  //   (c) one backward() from each of several tensors of the result, if no parameter influences
  //       two of them.
  // Otherwise libtorch throws. With TORCH_DISTRIBUTED_DEBUG=INFO its message names the parameter.
  // The program may ignore a result and call no backward() for it. Exception: if it ignores the
  // first result of a static graph on libtorch 1.13, the next backward() throws.
  //
  // With gloo: if another rank died, or did not enter the collective within Options::timeout,
  // backward() throws libtorch's own exception, which does not name that rank. ddp::run() and
  // ddp::explain() name it. With nccl: see ddp::init().
  template <typename... Args>
  auto forward(Args&&... args) {
    using Result = decltype(module_->forward(std::forward<Args>(args)...));
    reducer_.before_forward();
    if constexpr (std::is_void_v<Result>) {
      module_->forward(std::forward<Args>(args)...);
      reducer_.after_forward([](const auto&) { detail::ThrowUnknownOutput(typeid(void)); });
    } else {
      std::decay_t<Result> result = module_->forward(std::forward<Args>(args)...);
      reducer_.after_forward(
          [&](const detail::TensorVisitor& visit) { detail::ForEachTensor(result, visit); });
      return result;
    }
  }
  template <typename... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  // While the returned object lives, forwards are not synchronized: their backward() only adds to
  // this rank's gradients. The first step after that averages the sums over all ranks. Such objects
  // may nest.
  //
  //   {
  //     const auto no_sync = model.no_sync();
  //     for (...) loss(model(x), y).backward();
  //   }
  //   loss(model(x), y).backward();  // averaged here
  //   optimizer.step();
  NoSync no_sync() { return NoSync(reducer_.synchronize()); }

  // Replaces the all-reduce of gradients by `hook`: <ddp/comm_hooks.h>. Call it before the first
  // step, with the same hook on all ranks. A second call throws ConfigError.
  void register_comm_hook(CommHook hook) { reducer_.register_comm_hook(std::move(hook)); }

  // For ranks with different numbers of inputs. A collective. It runs `train`, which is this rank's
  // loop over its inputs. After `train` has returned, this rank takes part in the collectives of
  // the other ranks' steps, with zero gradients, until all ranks have finished. Then all ranks get
  // the parameters and buffers of one rank: the highest of the ranks that finished last. The
  // buffers are not sent with libtorch 2.6 or newer and broadcast_buffers = false.
  //
  //   model.join([&] {
  //     for (auto& batch : *loader) train_one(model, optimizer, batch);
  //   });
  //
  // Like Python's torch.distributed.algorithms.Join, for one model. In `train`, do not use your own
  // collectives or a Checkpointer. If CheckpointerOptions::share_each_step is set, do not use an
  // OptimizerStep either.
  // Ranks that have finished do not take part in these. So the ranks' collectives would no longer
  // match, and the job would hang or fail. For the same reason, use SyncBatchNorm only with
  // throw_on_early_termination. Each forward in `train`, with or without gradients, makes up to
  // four more small collectives. If `train` throws, join() throws that exception at once, and the
  // other ranks fail as if this rank had died.
  template <typename Train>
  void join(Train&& train, const JoinOptions& options = JoinOptions()) {
    reducer_.join(std::function<void()>(std::ref(train)), options);
  }

  // The wrapped module. For evaluation call its own forward(): in evaluation mode this call
  // communicates nothing.
  Module& module() { return *module_; }
  const Module& module() const { return *module_; }
  Module* operator->() { return module_.get(); }

  // All parameters of the module, each once, in the order of named_parameters(). Give these to the
  // optimizer. C++'s Module::parameters() returns a tensor with two names twice, unlike Python, and
  // the optimizer would update it twice.
  std::vector<torch::Tensor> parameters() const { return reducer_.parameters(); }

  // Clears the gradients of all parameters. With `set_to_none` = false it fills them with zeros in
  // place, as PyTorch did before 2.0. Optimizers then see a zero gradient for a parameter that the
  // next step does not use. Both ways work with and without gradient_as_bucket_view. With
  // gradient_as_bucket_view, zeros in place are cheaper, but a resumed training may then differ in
  // the last bits from a training without a restart (docs/worker-library.md).
  void zero_grad(bool set_to_none = true) { reducer_.zero_grad(set_to_none); }

  // Gives every rank the buffers of rank 0. Call it before an evaluation, because BatchNorm's
  // statistics differ between ranks after a training step. A collective.
  void sync_buffers() { reducer_.sync_buffers(); }

  // Throws AgreedError on every rank unless the parameters are equal on all ranks to the last bit:
  // <ddp/verify.h>. A collective; call it between steps.
  void verify_replicas(const VerifyOptions& options = VerifyOptions()) const {
    ddp::verify_replicas(ctx_, *module_, options);
  }

  // How this rank's time divides into forward, backward and communication. Not a collective.
  DataParallelStatistics statistics() const { return reducer_.statistics(); }

  // The ranks that keep the others waiting, in the newest complete window of straggler_every steps.
  // A window is complete one step after its last step. Equal on all ranks. Not a collective.
  //
  // Each rank measures how long it computes on its own in each step: from the end of one backward's
  // communication until this rank's first bucket of the next backward is ready. This includes the
  // optimizer, the loading of data, steps under no_sync(), and forward. It excludes this library's
  // collectives. A step is a backward that averages gradients. Steps in join() are not counted.
  //
  // The quick-step time of a rank is the first quartile of its step times in a window. A rank is
  // *slow* in a window if its quick-step time is
  //   - more than 1.25 times as long as the others' quick-step time (the median over the others),
  //   - at least 1 ms longer than the others' quick-step time, and
  //   - longer than the others' median step time (again the median over the others).
  // A rank becomes a straggler after three windows in a row in which it is slow. It stops being a
  // straggler after three windows in a row in which it is not slow. For a straggler 1.15 replaces
  // 1.25. StragglerSummary::stragglers has only the stragglers that are slow in the newest window.
  //
  // When a window is complete, rank 0 writes one line to stderr for each of these ranks: at most
  // eight lines, and then "and N ranks more". It also writes one line when a rank stops being a
  // straggler. Rank 0 also reports the ranks in these lines to its agent.
  //
  // On CUDA the times are those of the GPU. There only the broadcast of buffers is excluded. Other
  // collectives between the gradients of two steps, for example those of SyncBatchNorm, make the
  // times of the ranks equal.
  const StragglerSummary& stragglers() const { return reducer_.stragglers(); }

  // The size of each gradient bucket in bytes, in the order of reduction.
  std::vector<std::size_t> bucket_sizes() const { return reducer_.bucket_sizes(); }

 private:
  friend class CheckpointParts;  // for the order of the buckets

  const Context& ctx_;  // the program owns it; outlives this object
  std::shared_ptr<Module> module_;
  detail::GradientReducer reducer_;
};

}  // namespace ddp

#endif  // DDP_DISTRIBUTED_DATA_PARALLEL_H_
