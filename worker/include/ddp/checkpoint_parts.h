// CheckpointParts refers to the objects of a training that belong into a checkpoint.
#ifndef DDP_CHECKPOINT_PARTS_H_
#define DDP_CHECKPOINT_PARTS_H_

#include <ddp/distributed_data_parallel.h>
#include <ddp/distributed_sampler.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

namespace ddp {

// The argument of Checkpointer::save(), step() and load_latest(). Every rank must give the same
// kinds of parts. The given objects must outlive this object. No function here is a collective.
// Copyable.
//
//   ddp::CheckpointParts parts(model, optimizer);
//   parts.with(scheduler).with(sampler);
class CheckpointParts {
 public:
  // Prefer the constructor with the DistributedDataParallel. Then the checkpoint also has the order
  // of the gradient buckets, which the first backward() determines. Without this order, the first
  // step after a restart adds the gradients of three or more ranks in another order than a training
  // without a restart. From then on the two trainings differ in the last bits.
  template <typename Module>
  CheckpointParts(DistributedDataParallel<Module>& model, torch::optim::Optimizer& optimizer)
      : CheckpointParts(model.module(), optimizer) {
    reducer_ = &model.reducer_;
  }
  CheckpointParts(torch::nn::Module& module, torch::optim::Optimizer& optimizer)
      : module_(&module), optimizer_(&optimizer) {}

  // Saves the scheduler's number of steps. Every checkpoint contains the learning rates anyway.
  // Both together are the whole state of StepLR, and of any other scheduler that computes the next
  // rates from them. If a scheduler has further state, put it into State::user.
  // ReduceLROnPlateauScheduler of libtorch 2.x cannot be given here: it is not an LRScheduler, and
  // its state cannot be read.
  CheckpointParts& with(torch::optim::LRScheduler& scheduler) {
    scheduler_ = &scheduler;
    return *this;
  }

  // A save stores sampler.state(). A load calls sampler.resume(): sampler.next() then continues
  // with the first unused sample, for any world size. Do not give a sampler if a torch::data loader
  // uses a copy of it, or if the program fetches samples before it uses them: see
  // DistributedSampler::state().
  CheckpointParts& with(DistributedSampler& sampler) {
    sampler_ = &sampler;
    return *this;
  }

  torch::nn::Module& module() const { return *module_; }
  torch::optim::Optimizer& optimizer() const { return *optimizer_; }
  // The following three return null if the part was not given.
  torch::optim::LRScheduler* scheduler() const { return scheduler_; }
  DistributedSampler* sampler() const { return sampler_; }
  detail::GradientReducer* reducer() const { return reducer_; }

 private:
  // The program owns these objects. They outlive this object.
  torch::nn::Module* module_;
  torch::optim::Optimizer* optimizer_;
  torch::optim::LRScheduler* scheduler_ = nullptr;
  DistributedSampler* sampler_ = nullptr;
  detail::GradientReducer* reducer_ = nullptr;
};

}  // namespace ddp

#endif  // DDP_CHECKPOINT_PARTS_H_
