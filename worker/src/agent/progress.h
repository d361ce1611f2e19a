// Reports to the agent what this process is doing, without a system call
// (worker/contract/progress.h).
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

// Writes to a page of its own until the agent has sent a page, and then to the agent's page. So
// callers need not know whether there is an agent. Any thread, unless a function says otherwise.
//
// The phase is the phase of the innermost Scope. Outside of all scopes it is the stage of the
// training (SetStage()), with one exception. In the stages kFirstStep and kStep, the phase is kData
// from AwaitData() to DataIsThere().
class Progress {
 public:
  // If this variable is "off", this class reports nothing. For measuring its cost.
  static constexpr char kSwitch[] = "DDP_PROGRESS_PAGE";

  // The object of this process. Never destroyed, because collectives may complete until the process
  // ends.
  static Progress& Process();

  explicit Progress(bool enabled = true);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool enabled() const { return enabled_; }

  // Uses the agent's page if `agent` has it or gets it within `patience`. Otherwise does nothing,
  // and the next call tries again. Refuses a page that can be resized.
  void TakePage(ControlClient* agent, std::chrono::milliseconds patience);

  // This process joins a new group: forgets the earlier groups. Continues to use the old page until
  // the agent's next page is taken.
  void BeginGeneration(std::int64_t generation);
  // `name` is used only for kNamed.
  void SetStage(ProgressPhase stage, const std::string& name = "");
  // Reports step `step` as finished. The stage becomes kStep.
  void FinishStep(std::int64_t step);
  // The gradients of a step are averaged. Ends the stage kFirstStep, even if the program reports no
  // steps.
  void FinishBackward();
  void SetInOptimizerStep(bool inside);
  // Counts a move (a sign of progress) of any kind.
  void Move();

  // AwaitData: the sampler has given out the indices of a batch. DataIsThere: the program uses the
  // batch. Both are cheap if nothing changes.
  void AwaitData();
  void DataIsThere();

  // Returns the number of a new process group, for Enter() and Complete().
  std::size_t NewGroup();
  std::uint64_t Enter(std::size_t group, ProgressOperation operation, std::uint64_t bytes,
                      std::optional<std::uint32_t> bucket = std::nullopt);
  void Complete(std::size_t group, std::uint64_t number, ProgressOperation operation,
                std::uint64_t bytes);

  // Sets the phase while the object exists. Scopes must end in reverse order, so only one thread
  // may use them.
  class Scope {
   public:
    explicit Scope(ProgressPhase phase, std::string name = "", Progress* progress = &Process());
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Progress* const progress_;
  };

  // What the agent reads from the page.
  ddprun::ProgressSnapshot Read() const;

 private:
  struct Named {
    ProgressPhase phase;
    std::string name;
  };

  void LetGoOfPage();  // unmaps the page of an earlier generation; mutex_ is held
  void Push(Named phase);
  void Pop();
  void Publish();  // writes the current phase to the page; mutex_ is held

  const bool enabled_;
  std::atomic<bool> awaits_data_{false};
  std::atomic<bool> has_page_{false};
  std::atomic<std::size_t> groups_{0};

  const std::unique_ptr<ddprun::ProgressPage> own_page_ = std::make_unique<ddprun::ProgressPage>();
  ddprun::ProgressWriter writer_{own_page_.get()};

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  const ddprun::ProgressPage* page_ = own_page_.get();  // own_page_, or the agent's page, mapped
  Named stage_{ProgressPhase::kStart, ""};
  std::vector<Named> scopes_;
  Named published_{ProgressPhase::kStart, ""};
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_PROGRESS_H_
