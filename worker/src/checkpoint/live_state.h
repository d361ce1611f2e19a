// The newest finished step of a process that runs in place, kept so that the state in its memory
// outlives the generation: a snapshot of it is made while the process leaves (ddp/run.h).
//
// By then every rank is somewhere in the next step. Parameters and optimizer state are still those
// of the finished step, unless ParameterWatch says otherwise; generators and buffers are not. Each
// rank therefore leaves these in node memory (RankSlots) before it averages a bucket of gradients:
// they no longer change in that step, and where any rank has finished it, all have left them.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_LIVE_STATE_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_LIVE_STATE_H_

#include <ddp/checkpoint_parts.h>
#include <ddp/context.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/src/data_parallel/model_sync.h"
#include "worker/src/formats/safetensors.h"
#include "worker/src/storage/rank_slots.h"

namespace ddp::internal {

// On the CPU: what a GPU was told may still be running when collectives are aborted.
//
// One thread, the one that trains; it holds references to tensors, and to nothing else of the
// program's.
class LiveState {
 public:
  // Whether this process runs in place, and on the CPU. The same on all ranks.
  static bool IsFor(const Context& ctx);

  // `folder`: DDPRUN_SNAPSHOT_DIR. `ctx` outlives this.
  LiveState(const Context& ctx, std::string folder);
  ~LiveState();
  LiveState(const LiveState&) = delete;
  LiveState& operator=(const LiveState&) = delete;

  // Training goes on from step `step`, of which no snapshot is needed. `generators`: of all ranks,
  // as a file has them; empty: not known.
  void Begin(std::int64_t step, const CheckpointParts& parts, std::string generators);
  // A step is finished. `metadata`: what a file holds beside tensors and generators.
  void Finish(std::int64_t step, const CheckpointParts& parts, Metadata metadata);
  // All ranks' generators were gathered, after the step that was finished last.
  void Gathered(std::string generators) { generators_ = std::move(generators); }

  struct State {
    std::int64_t step = 0;
    std::vector<NamedTensor> tensors;
    Metadata metadata;
  };
  // The state of the step that was finished last; nothing where it is not whole any more, or where
  // the generators of some rank or the buffers of rank 0 are not known.
  std::optional<State> Take() const;

  // Sets this rank's generator as it was at the end of that step, if `metadata`, of a state that
  // was loaded, says that it is one of Take()'s, and this node has it. Else it is as in the file.
  static void RestoreGenerator(const Context& ctx, const std::string& folder, std::int64_t step,
                               const Metadata& metadata);

 private:
  void PutOwnState();
  std::optional<std::string> AllGenerators(std::int64_t step) const;
  bool TakeBuffers(std::int64_t step, std::vector<NamedTensor>* tensors) const;

  const Context& ctx_;
  const std::string folder_;
  RankSlots slots_;
  bool usable_ = true;
  std::vector<torch::Tensor> own_buffers_;
  std::string generators_;  // of all ranks, at some step before
  // Of the step that was finished last, or with which training began.
  std::int64_t step_ = 0;
  bool finished_ = false;
  std::vector<NamedTensor> tensors_;
  std::size_t first_buffer_ = 0;  // among them
  Metadata metadata_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_LIVE_STATE_H_
