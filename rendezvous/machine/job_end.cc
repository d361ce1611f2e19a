#include "rendezvous/machine/job_end.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/limits.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/words.h"
#include "rendezvous/machine/states/known_states.h"

namespace ddprun {

JobEnd EndForLackOfNodes(const JobView& view) {
  const JobSpec& spec = *view.life.spec;
  std::string reason =
      absl::StrCat("only ", view.roster.free(), " of at least ", Nodes(spec.min_nodes),
                   " joined within ", Seconds(spec.join_timeout), "; ", MissingNodes(view));
  const auto step = DurableStep(view);
  if (spec.all_nodes == 0 || !step) {
    return {Outcome::kUnreachable, kExitUnavailable, std::move(reason)};
  }
  return {Outcome::kPreempted, kExitPreempted,
          absl::StrCat(reason, "; the last checkpoint is of step ", *step)};
}

JobEnd EndAsPlanned(const JobView& view, const Plan& plan) {
  const auto step = DurableStep(view);
  // If a preemption comes after a save and before the next step, the saved checkpoint counts as
  // made for the preemption.
  const bool none_since =
      view.generation.started_at == TimePoint{} || step == FurthestPossibleStep(view);
  const bool saved_before =
      plan.preempted && step && none_since && NewestKnownStep(view.roster, view.judge()) <= *step;
  if (plan.saved || saved_before) {
    return {Outcome::kPreempted, kExitPreempted,
            absl::StrCat(plan.reason, "; the state of step ", *step, " is saved")};
  }
  if (plan.preempted && step) {
    return {Outcome::kPreempted, kExitPreempted,
            absl::StrCat(plan.reason, "; no checkpoint was made for it, the last one is of step ",
                         *step)};
  }
  return {Outcome::kLeft, kExitTerminated,
          absl::StrCat(plan.reason, "; no checkpoint was made for it")};
}

std::optional<JobEnd> EndWithout(const JobLife& life, const Exclusion& exclusion) {
  const JobSpec& spec = *life.spec;
  const int rest = spec.all_nodes - static_cast<int>(life.quarantine->hosts().size());
  if (spec.all_nodes == 0 || rest >= spec.min_nodes) return std::nullopt;
  std::string reason =
      absl::StrCat(exclusion.host, " is left out, for ", exclusion.why, ", and ", Nodes(rest),
                   " of at least ", spec.min_nodes, rest == 1 ? " remains" : " remain");
  if (!exclusion.step) return JobEnd{Outcome::kFailed, exclusion.exit_code, std::move(reason)};
  return JobEnd{Outcome::kPreempted, kExitPreempted,
                absl::StrCat(reason, "; the last checkpoint is of step ", *exclusion.step)};
}

Finished FinishedForOne(const JobLife& life, JobEnd end) {
  return {end.outcome, end.exit_code,         std::move(end.reason), life.restarts_used(), {},
          {},          life.failures.total(), life.excluded_hosts()};
}

Finished FinishedForAll(const JobLife& life, JobEnd end) {
  Finished finished = FinishedForOne(life, std::move(end));
  finished.job_is_over = true;
  finished.earlier = life.causes;
  if (finished.outcome != Outcome::kSucceeded && !life.causes.empty()) {
    finished.root_cause = std::move(finished.earlier.back());
    finished.earlier.pop_back();
  }
  for (RootCause& cause : finished.earlier) {
    cause.victims.clear();
    auto& tail = cause.failure.exit.stderr_tail;
    tail = NewestLines(tail, tail.size(), kMaxEarlierTailBytes);
  }
  return finished;
}

}  // namespace ddprun
