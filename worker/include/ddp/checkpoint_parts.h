// The parts of a checkpoint: references to the objects of a training.
#ifndef DDP_CHECKPOINT_PARTS_H_
#define DDP_CHECKPOINT_PARTS_H_

#include <ddp/distributed_data_parallel.h>
#include <ddp/distributed_sampler.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

namespace ddp {

// For Checkpointer::save() and load_latest(). Every rank gives the same kinds of parts. All given
// objects must outlive this one. No collective; copyable.
//
//   ddp::CheckpointParts parts(model, optimizer);
//   parts.with(scheduler).with(sampler);
class CheckpointParts {
 public:
  // A DistributedDataParallel, instead of its module, also keeps the order of the gradient buckets,
  // which backward finds in the first step. Without it, with three and more ranks, the first step
  // after a restart adds in another order than the undisturbed training, and the two differ in the
  // last bits from then on.
  template <typename Module>
  CheckpointParts(DistributedDataParallel<Module>& model, torch::optim::Optimizer& optimizer)
      : CheckpointParts(model.module(), optimizer) {
    reducer_ = &model.reducer_;
  }
  CheckpointParts(torch::nn::Module& module, torch::optim::Optimizer& optimizer)
      : module_(&module), optimizer_(&optimizer) {}

  // The scheduler's number of steps. Together with the learning rates, which every checkpoint has,
  // this is the whole state of StepLR and of any scheduler that computes the next rates from these
  // two. Put other state of your own scheduler into State::user. (ReduceLROnPlateauScheduler of
  // libtorch 2.x is no LRScheduler, and its state cannot be read.)
  CheckpointParts& with(torch::optim::LRScheduler& scheduler) {
    scheduler_ = &scheduler;
    return *this;
  }

  // The place in the epoch: sampler.state() when saving, resume() when loading. So the next next()
  // gives the next batch, for any world size. Not for a sampler that was copied into a torch::data
  // loader, or from which a loader fetches ahead: SamplerState says what to do.
  CheckpointParts& with(DistributedSampler& sampler) {
    sampler_ = &sampler;
    return *this;
  }

  torch::nn::Module& module() const { return *module_; }
  torch::optim::Optimizer& optimizer() const { return *optimizer_; }
  // Null where not given.
  torch::optim::LRScheduler* scheduler() const { return scheduler_; }
  DistributedSampler* sampler() const { return sampler_; }
  detail::GradientReducer* reducer() const { return reducer_; }

 private:
  // The user's; they outlive this object.
  torch::nn::Module* module_;
  torch::optim::Optimizer* optimizer_;
  torch::optim::LRScheduler* scheduler_ = nullptr;
  DistributedSampler* sampler_ = nullptr;
  detail::GradientReducer* reducer_ = nullptr;
};

}  // namespace ddp

#endif  // DDP_CHECKPOINT_PARTS_H_
