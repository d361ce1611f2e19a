// Keeps the newest finished step of a process that runs in place, so that the state in its memory
// outlives the generation: the process makes a snapshot of it while it leaves (ddp/run.h).
//
// At that time every rank is in the middle of the next step. Parameters and optimizer state are
// still those of the finished step, unless ParameterWatch says otherwise; generators and buffers
// are not. So each rank writes its generator and buffers to node memory (RankSlots) before it
// averages a bucket of gradients: they no longer change in that step. If any rank has finished the
// step, all ranks have written them.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_LIVE_STATE_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_LIVE_STATE_H_

#include <ddp/checkpoint_parts.h>
#include <ddp/context.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/src/data_parallel/model_sync.h"
#include "worker/src/formats/safetensors.h"
#include "worker/src/storage/rank_slots.h"

namespace ddp::internal {

// CPU training only: a GPU may still run earlier work when collectives are aborted.
//
// Used by the training thread only. It holds references only to tensors of the program.
class LiveState {
 public:
  // This process runs in place and trains on the CPU. The same on all ranks.
  static bool IsFor(const Context& ctx);

  // `folder`: DDPRUN_SNAPSHOT_DIR. `ctx` outlives this.
  LiveState(const Context& ctx, std::string folder);
  ~LiveState();
  LiveState(const LiveState&) = delete;
  LiveState& operator=(const LiveState&) = delete;

  // Training begins with a state of step `step` that was loaded; `metadata`: of its file. Keeps
  // what this rank put for it, because the next generation may begin with it again.
  void Keep(std::int64_t step, const Metadata& metadata);
  // Training continues from step `step`, which needs no snapshot. `generators`: of all ranks, as in
  // a file; empty: not known.
  void Begin(std::int64_t step, const CheckpointParts& parts, std::string generators);
  // A step is finished. `metadata`: the contents of a file besides tensors and generators.
  void Finish(std::int64_t step, const CheckpointParts& parts, Metadata metadata);
  // All ranks' generators were gathered after the last finished step.
  void Gathered(std::string generators) { generators_ = std::move(generators); }

  struct State {
    std::int64_t step = 0;
    std::vector<NamedTensor> tensors;
    Metadata metadata;
  };
  // The state of the last finished step. nullopt: it is no longer whole, or a rank's generator or
  // rank 0's buffers are not known.
  std::optional<State> Take() const;

  // If `metadata` of a loaded state says that the state came from Take(), and this node has this
  // rank's generator of that step, restores that generator. Otherwise the one of the file stays.
  static void RestoreGenerator(const Context& ctx, const std::string& folder, std::int64_t step,
                               const Metadata& metadata);

 private:
  void PutOwnState();
  // `write` fails: this makes no snapshot any more.
  void Write(const std::function<void()>& write);
  std::optional<std::string> AllGenerators(std::int64_t step) const;
  bool TakeBuffers(std::int64_t step, std::vector<NamedTensor>* tensors) const;

  const Context& ctx_;
  const std::string folder_;
  RankSlots slots_;
  bool usable_ = true;
  std::vector<torch::Tensor> own_buffers_;
  std::string generators_;  // of all ranks, at an earlier step
  // State of the last finished step, or of the step at which training began.
  std::int64_t step_ = 0;
  bool finished_ = false;
  std::vector<NamedTensor> tensors_;
  std::size_t first_buffer_ = 0;  // index of the first buffer in tensors_
  Metadata metadata_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_LIVE_STATE_H_
