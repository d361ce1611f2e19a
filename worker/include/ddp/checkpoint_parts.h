// CheckpointParts: references to the objects of a training that a checkpoint contains.
#ifndef DDP_CHECKPOINT_PARTS_H_
#define DDP_CHECKPOINT_PARTS_H_

#include <ddp/distributed_data_parallel.h>
#include <ddp/distributed_sampler.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

namespace ddp {

// The argument of Checkpointer::save(), step() and load_latest(). Every rank gives the same kinds
// of parts. The given objects must outlive this one. Not a collective. Copyable.
//
//   ddp::CheckpointParts parts(model, optimizer);
//   parts.with(scheduler).with(sampler);
class CheckpointParts {
 public:
  // With a DistributedDataParallel instead of its module, the checkpoint also keeps the order of
  // the gradient buckets, which the first backward finds. Without that order, on three and more
  // ranks, the first step after a restart adds gradients in another order than an undisturbed
  // training, and the two trainings differ in the last bits from then on.
  template <typename Module>
  CheckpointParts(DistributedDataParallel<Module>& model, torch::optim::Optimizer& optimizer)
      : CheckpointParts(model.module(), optimizer) {
    reducer_ = &model.reducer_;
  }
  CheckpointParts(torch::nn::Module& module, torch::optim::Optimizer& optimizer)
      : module_(&module), optimizer_(&optimizer) {}

  // Saves the scheduler's number of steps. Every checkpoint also has the learning rates. Together
  // they are the whole state of StepLR, and of any scheduler that computes the next rates from
  // them. Put other state of a scheduler into State::user. ReduceLROnPlateauScheduler of libtorch
  // 2.x is not an LRScheduler, and its state cannot be read.
  CheckpointParts& with(torch::optim::LRScheduler& scheduler) {
    scheduler_ = &scheduler;
    return *this;
  }

  // Saves sampler.state(), and calls sampler.resume() when loading: the next next() then returns
  // the next batch, for any world size. Not for a sampler that was copied into a torch::data
  // loader, or that a loader reads ahead: see DistributedSampler::state().
  CheckpointParts& with(DistributedSampler& sampler) {
    sampler_ = &sampler;
    return *this;
  }

  torch::nn::Module& module() const { return *module_; }
  torch::optim::Optimizer& optimizer() const { return *optimizer_; }
  // Null if not given.
  torch::optim::LRScheduler* scheduler() const { return scheduler_; }
  DistributedSampler* sampler() const { return sampler_; }
  detail::GradientReducer* reducer() const { return reducer_; }

 private:
  // Owned by the user; they outlive this object.
  torch::nn::Module* module_;
  torch::optim::Optimizer* optimizer_;
  torch::optim::LRScheduler* scheduler_ = nullptr;
  DistributedSampler* sampler_ = nullptr;
  detail::GradientReducer* reducer_ = nullptr;
};

}  // namespace ddp

#endif  // DDP_CHECKPOINT_PARTS_H_
