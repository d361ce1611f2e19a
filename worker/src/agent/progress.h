// What this process is doing, told to its agent without a system call: worker/contract/progress.h.
#ifndef DDPRUN_WORKER_SRC_AGENT_PROGRESS_H_
#define DDPRUN_WORKER_SRC_AGENT_PROGRESS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/contract/progress.h"
#include "worker/contract/progress_page.h"
#include "worker/src/agent/control_client.h"

namespace ddp::internal {

using ddprun::ProgressOperation;
using ddprun::ProgressPhase;

// Writes to a page of its own until the agent has sent one, and then goes on there. So nobody need
// ask whether there is an agent. Any thread, unless a function says otherwise.
//
// The phase is that of the innermost Scope; outside of them the stage of the training, and within
// its steps kData from when the sampler has given out a batch until that is used.
class Progress {
 public:
  // The variable that switches it off, as "off": for measuring what it costs.
  static constexpr char kSwitch[] = "DDP_PROGRESS_PAGE";

  // The process's own. Never destroyed: a collective may complete until the very end.
  static Progress& Process();

  explicit Progress(bool enabled = true);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool enabled() const { return enabled_; }

  // Takes the agent's page, where `agent` has it or gets it within `patience`; else nothing
  // happens, and the next call tries again. A page that can be resized is not taken.
  void TakePage(ControlClient* agent, std::chrono::milliseconds patience);

  // This process joins a group: what was known of groups is forgotten. The page stays the old one
  // until the agent's next one is taken.
  void BeginGeneration(std::int64_t generation);
  // `name` is for kNamed.
  void SetStage(ProgressPhase stage, const std::string& name = "");
  // The stage becomes kStep.
  void FinishStep(std::int64_t step);
  // A step's gradients are averaged: kFirstStep is over, also where the program tells of no step.
  void FinishBackward();
  void SetInOptimizerStep(bool inside);
  // Something went on, whatever it was.
  void Move();

  // The sampler has given out a batch; it is there. Both are cheap where nothing changes.
  void AwaitData();
  void DataIsThere();

  // The number of a new process group, for Enter() and Complete().
  std::size_t NewGroup();
  std::uint64_t Enter(std::size_t group, ProgressOperation operation, std::uint64_t bytes,
                      std::optional<std::uint32_t> bucket = std::nullopt);
  void Complete(std::size_t group, std::uint64_t number, ProgressOperation operation,
                std::uint64_t bytes);

  // While this lives, that is what the process does. They end in the reverse order, which is left
  // to one thread.
  class Scope {
   public:
    explicit Scope(ProgressPhase phase, std::string name = "", Progress* progress = &Process());
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Progress* const progress_;
  };

  // As the agent would read it.
  ddprun::ProgressSnapshot Read() const;

 private:
  struct Named {
    ProgressPhase phase;
    std::string name;
  };

  void LetGoOfPage();  // of an earlier generation; mutex_ is held
  void Push(Named phase);
  void Pop();
  void Publish();  // what the rest of what mutex_ guards leads to

  const bool enabled_;
  std::atomic<bool> awaits_data_{false};
  std::atomic<bool> has_page_{false};
  std::atomic<std::size_t> groups_{0};

  const std::unique_ptr<ddprun::ProgressPage> own_page_ = std::make_unique<ddprun::ProgressPage>();
  ddprun::ProgressWriter writer_{own_page_.get()};

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  const ddprun::ProgressPage* page_ = own_page_.get();  // or the agent's, mapped
  Named stage_{ProgressPhase::kStart, ""};
  std::vector<Named> scopes_;
  Named published_{ProgressPhase::kStart, ""};
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_PROGRESS_H_
