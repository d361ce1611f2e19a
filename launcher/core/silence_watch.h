// SilenceWatch: decides when to warn that hangs of this job are not noticed, because no worker
// reports its steps. It warns at most once per agent, and only on the node of rank 0. Once any
// worker of this node has reported, it never warns: the first step after a restart may take longer.
//
// Pure. Belongs to WorkerWatch, which calls See() at each heartbeat and Look() at the deadline.
#ifndef DDPRUN_LAUNCHER_CORE_SILENCE_WATCH_H_
#define DDPRUN_LAUNCHER_CORE_SILENCE_WATCH_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/worker_progress.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class SilenceWatch {
 public:
  // Limits from the start of a generation. Python programs have a shorter limit: they import their
  // modules at the start, and the import of the module ddprun reports that steps will follow
  // (TELLS=1).
  static constexpr std::chrono::seconds kSilence{60};
  static constexpr std::chrono::seconds kSilenceOfPython{15};

  // `judges_hangs` false: never warns, because nobody needs the steps.
  SilenceWatch(bool judges_hangs, bool is_python)
      : limit_(is_python ? kSilenceOfPython : kSilence), done_(!judges_hangs) {}

  // A generation starts. `of_rank_0`: its rank 0 runs on this node.
  void Begin(bool of_rank_0, TimePoint now);
  void End() { deadline_.reset(); }

  std::optional<TimePoint> deadline() const { return deadline_; }
  // Takes the reports of the node's workers.
  void See(const std::vector<WorkerProgress>& workers);
  // Call it at the deadline. Returns the warning; nullopt: none.
  std::optional<std::string> Look(const std::vector<WorkerProgress>& workers);

 private:
  const std::chrono::seconds limit_;
  bool done_;
  std::optional<TimePoint> deadline_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SILENCE_WATCH_H_
