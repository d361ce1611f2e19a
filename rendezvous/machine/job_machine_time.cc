// JobMachine: what time does to it.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/words.h"
#include "rendezvous/machine/job_machine.h"

namespace ddprun {

void JobMachine::OnTick() {
  if (finished_) return;
  LoseSilent();
  if (finished_) return;
  if (timers_.report && now_ >= *timers_.report) {
    const std::string reason = WhyItWaits(View());
    Log(reason);
    for (const Node& node : roster_.nodes()) {
      if (!node.member() && !node.suspect) SendTo(node, Waiting{reason});
    }
    timers_.report_interval =
        std::min<Duration>(2 * timers_.report_interval, std::chrono::minutes(1));
    timers_.report = now_ + timers_.report_interval;
  }
  if (timers_.admission && now_ >= *timers_.admission) AdmitHeldBack();
  ConsiderHang();
  if (hold_until_ && now_ >= *hold_until_) {
    hold_until_.reset();
    LoseSight();  // until now such workers may have written
  }
  if (!timers_.state || now_ < *timers_.state) return;
  timers_.state.reset();
  switch (state_) {
    case JobState::kGathering:
      GiveUpWaiting();
      break;
    case JobState::kLastCall:
      // Some may have been lost just above; then Advance goes back to Gathering.
      if (roster_.free() >= life_.spec->min_nodes) FormWithAllStates();
      break;
    case JobState::kForming:
      LoseUnprepared();
      break;
    case JobState::kSaving:
      Log(absl::StrCat("no checkpoint came within ", Seconds(life_.spec->save_timeout)));
      StopGeneration(life_.plan->reason);
      break;
    case JobState::kBackoff:
      Gather();
      break;
    default:
      DDPRUN_CHECK(false, "a state without a deadline has one");
  }
}

// Slurm can start the job again on other nodes, and it is worth it where there is a state.
void JobMachine::GiveUpWaiting() {
  const std::string reason = absl::StrCat(
      "only ", roster_.free(), " of at least ", Nodes(life_.spec->min_nodes), " joined within ",
      Seconds(life_.spec->join_timeout), "; ", MissingNodes(View()));
  const auto step = DurableStep();
  if (life_.spec->all_nodes > 0 && step) {
    Finish(Outcome::kPreempted, kExitPreempted,
           absl::StrCat(reason, "; the last checkpoint is of step ", *step));
  } else {
    Finish(Outcome::kUnreachable, kExitUnavailable, reason);
  }
}

void JobMachine::LoseSilent() {
  if (!options_.leases || !life_.spec) return;
  for (Node* node = roster_.MostSilent();
       !finished_ && node != nullptr && now_ >= node->heard + life_.spec->lease;
       node = roster_.MostSilent()) {
    if (running() && node->done()) {
      // Its part is finished; it is missed only if the group re-forms.
      roster_.SetSuspect(*node, true);
      roster_.EndLease(*node);
    } else {
      Lose(*node, HowLost::kSilent, absl::StrCat("nothing heard for ", Seconds(life_.spec->lease)));
    }
  }
}

void JobMachine::AdmitHeldBack() {
  timers_.admission.reset();
  for (Node& node : roster_.nodes()) {
    if (!node.held_back) continue;
    const TimePoint until = node.held_back->until;
    if (now_ >= until) {
      roster_.SetHeldBack(node, std::nullopt);
      Log(absl::StrCat(node.spec.host, " is admitted again"));
    } else {
      timers_.admission = std::min(timers_.admission.value_or(until), until);
    }
  }
}

void JobMachine::LoseUnprepared() {
  const std::string why =
      absl::StrCat("it did not prepare its ranks within ", Seconds(options_.forming_timeout));
  std::vector<AgentId> unprepared;
  for (const Node& node : roster_.nodes()) {
    if (node.phase == Phase::kAssigned) unprepared.push_back(node.agent_id);
  }
  for (const AgentId agent_id : unprepared) {
    if (Node* const node = roster_.Find(agent_id); node != nullptr && !finished_) {
      SendTo(*node, Fenced{absl::StrCat("out of the generation: ", why)});
      Lose(*node, HowLost::kSilent, why);
    }
  }
}

std::optional<TimePoint> JobMachine::NextDeadline() {
  if (finished_ || !life_.spec) return std::nullopt;
  std::optional<TimePoint> next = timers_.state;
  const auto consider = [&next](const std::optional<TimePoint>& time) {
    if (time && (!next || *time < *next)) next = time;
  };
  consider(timers_.victim_grace);
  consider(timers_.report);
  consider(hold_until_);
  if (states_wait_) consider(states_wait_->until);
  consider(timers_.growth);
  consider(timers_.admission);
  consider(HangDeadline());
  if (options_.leases) {
    if (const Node* node = roster_.MostSilent()) consider(node->heard + life_.spec->lease);
  }
  return next;
}

}  // namespace ddprun
