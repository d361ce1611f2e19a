#include "launcher/core/silence_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/words.h"

namespace ddprun {

void SilenceWatch::Begin(bool of_rank_0, TimePoint now) {
  End();
  if (of_rank_0 && !done_) deadline_ = now + limit_;
}

void SilenceWatch::See(const std::vector<WorkerProgress>& workers) {
  done_ = done_ || std::any_of(workers.begin(), workers.end(), [](const WorkerProgress& worker) {
            return worker.source != ProgressSource::kNone;
          });
}

std::optional<std::string> SilenceWatch::Look(const std::vector<WorkerProgress>& workers) {
  End();
  See(workers);
  if (std::exchange(done_, true)) return std::nullopt;
  return absl::StrCat("no worker has told a step for ", Seconds(limit_),
                      ": if this job hangs, ddprun does not notice. Python: --auto-step, or "
                      "ddprun.step(n) in the script; other programs: STEP=n (docs/hangs.md)");
}

}  // namespace ddprun
