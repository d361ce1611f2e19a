// Keeps the newest finished step of a process that runs in place (ddp/run.h), so that the state in
// its memory outlives the generation. The process makes a snapshot of that state while it leaves.
//
// When the process leaves, every rank is in the middle of the next step. Parameters and optimizer
// state are still those of the finished step, unless ParameterWatch says otherwise. The random
// generator and the buffers may have changed already. Therefore each rank writes its generator and
// buffers to the node's memory (RankSlots) before it averages a bucket of gradients. After the last
// bucket they do not change again in that step. A rank finishes a step only after all ranks have
// begun to average its last bucket. So when any rank has finished a step, all ranks have written
// their generators and buffers for it. With StepShare each process also has the generators of all
// ranks and the buffers of rank 0, so it needs no file of another rank.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_LIVE_STATE_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_LIVE_STATE_H_

#include <ddp/checkpoint_parts.h>
#include <ddp/context.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/src/checkpoint/step_share.h"
#include "worker/src/data_parallel/model_sync.h"
#include "worker/src/formats/safetensors.h"
#include "worker/src/storage/rank_slots.h"

namespace ddp::internal {

// Only for training on the CPU: a GPU may still run earlier work when collectives are aborted.
//
// Only the training thread uses it. It keeps references to the program's tensors, not copies.
class LiveState {
 public:
  // True if this process can leave its generation and trains on the CPU. The same on all ranks.
  static bool IsFor(const Context& ctx);

  // `folder` is DDPRUN_SNAPSHOT_DIR. `ctx` must outlive this object.
  LiveState(const Context& ctx, std::string folder);
  ~LiveState();
  LiveState(const LiveState&) = delete;
  LiveState& operator=(const LiveState&) = delete;

  // Call it when training begins with a loaded state of step `step`; `metadata` comes from the
  // state's file. Keeps the generator and buffers that this rank wrote for that state, because the
  // next generation may begin with that state again.
  void Keep(std::int64_t step, const Metadata& metadata);
  // Training continues from step `step`, which needs no snapshot. `generators`: the generators of
  // all ranks, as text like in a file; empty: unknown.
  void Begin(std::int64_t step, const CheckpointParts& parts, std::string generators);
  // A step is finished. `metadata` has everything that a file contains besides tensors and
  // generators.
  void Finish(std::int64_t step, const CheckpointParts& parts, Metadata metadata);
  // Call it after Finish(), with what the ranks have exchanged for that step.
  void Share(SharedStep shared) { shared_ = std::move(shared); }
  // Call it when the generators of all ranks were gathered after the last finished step.
  void Gathered(std::string generators) { generators_ = std::move(generators); }

  struct State {
    std::int64_t step = 0;
    std::vector<NamedTensor> tensors;
    Metadata metadata;
  };
  // The state of the last finished step. nullopt: no step is finished, or the parameters have
  // changed since. Also nullopt if a rank's generator or rank 0's buffers are unknown, or if a
  // write to the node's memory has failed.
  std::optional<State> Take() const;

  // Restores this rank's generator from the node's memory, if `metadata` says that the loaded state
  // came from Take() and the node has the generator of that step. Otherwise the generator of the
  // file stays.
  static void RestoreGenerator(const Context& ctx, const std::string& folder, std::int64_t step,
                               const Metadata& metadata);

 private:
  void PutOwnState();
  // Runs `write`. If it fails, this object makes no snapshot any more.
  void Write(const std::function<void()>& write);
  std::optional<std::string> AllGenerators(std::int64_t step) const;
  bool TakeBuffers(std::int64_t step, std::vector<NamedTensor>* tensors) const;

  const Context& ctx_;
  const std::string folder_;
  RankSlots slots_;
  bool usable_ = true;
  std::vector<torch::Tensor> own_buffers_;
  std::string generators_;  // of all ranks, at an earlier step
  // The state of the last finished step, or of the step with which training began.
  std::int64_t step_ = 0;
  bool finished_ = false;
  std::vector<NamedTensor> tensors_;
  std::size_t first_buffer_ = 0;  // index of the first buffer in tensors_
  Metadata metadata_;
  std::optional<SharedStep> shared_;  // of the step step_
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_LIVE_STATE_H_
