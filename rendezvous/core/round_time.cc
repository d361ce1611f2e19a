// Round: what time does to it.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/round.h"
#include "rendezvous/core/words.h"

namespace ddprun {

void Round::OnTick() {
  if (finished_) return;
  LoseSilent();
  if (finished_) return;
  if (tell_at_ && now_ >= *tell_at_) {
    const std::string reason = WhyItWaits();
    Say(reason);
    for (const Node& node : roster_.nodes()) {
      if (!node.member() && !node.suspect) SendTo(node, Waiting{reason});
    }
    tell_interval_ = std::min<Duration>(2 * tell_interval_, std::chrono::minutes(1));
    tell_at_ = now_ + tell_interval_;
  }
  if (hold_until_ && now_ >= *hold_until_) hold_until_.reset();
  if (!deadline_ || now_ < *deadline_) return;
  deadline_.reset();
  switch (state_) {
    case RoundState::kGathering:
      GiveUpWaiting();
      break;
    case RoundState::kLastCall:
      // Some may have been lost just above; then Advance goes back to Gathering.
      if (roster_.free() >= spec_->min_nodes) Form();
      break;
    case RoundState::kForming:
      LoseUnprepared();
      break;
    case RoundState::kSaving:
      Say(absl::StrCat("no checkpoint came within ", Seconds(spec_->save_timeout)));
      Drain(plan_->reason);
      break;
    case RoundState::kBackoff:
      Gather();
      break;
    default:
      DDPRUN_CHECK(false, "a state without a deadline has one");
  }
}

// Slurm can start the job again on other nodes, and it is worth it where there is a state.
void Round::GiveUpWaiting() {
  const std::string reason =
      absl::StrCat("only ", roster_.free(), " of at least ", Nodes(spec_->min_nodes),
                   " joined within ", Seconds(spec_->join_timeout), "; ", MissingNodes());
  const auto step = DurableStep();
  if (spec_->all_nodes > 0 && step) {
    Finish(Outcome::kPreempted, kExitPreempted,
           absl::StrCat(reason, "; the last checkpoint is of step ", *step));
  } else {
    Finish(Outcome::kTimedOut, kExitUnavailable, reason);
  }
}

void Round::LoseSilent() {
  if (!options_.leases || !spec_) return;
  for (Node* node = roster_.MostSilent();
       !finished_ && node != nullptr && now_ >= node->heard + spec_->lease;
       node = roster_.MostSilent()) {
    if (running() && node->done()) {
      // Its part is finished; it is missed only if the group re-forms.
      roster_.SetSuspect(*node, true);
      roster_.EndLease(*node);
    } else {
      Lose(*node, HowLost::kSilent, absl::StrCat("nothing heard for ", Seconds(spec_->lease)));
    }
  }
}

void Round::LoseUnprepared() {
  const std::string why =
      absl::StrCat("it did not prepare its ranks within ", Seconds(options_.forming_timeout));
  std::vector<Incarnation> unprepared;
  for (const Node& node : roster_.nodes()) {
    if (node.phase == Phase::kAssigned) unprepared.push_back(node.incarnation);
  }
  for (const Incarnation incarnation : unprepared) {
    if (Node* const node = roster_.Find(incarnation); node != nullptr && !finished_) {
      SendTo(*node, Fenced{absl::StrCat("out of the generation: ", why)});
      Lose(*node, HowLost::kSilent, why);
    }
  }
}

std::optional<TimePoint> Round::NextDeadline() {
  if (finished_ || !spec_) return std::nullopt;
  std::optional<TimePoint> next = deadline_;
  const auto consider = [&next](const std::optional<TimePoint>& time) {
    if (time && (!next || *time < *next)) next = time;
  };
  consider(grace_until_);
  consider(tell_at_);
  consider(hold_until_);
  consider(grow_at_);
  if (options_.leases) {
    if (const Node* node = roster_.MostSilent()) consider(node->heard + spec_->lease);
  }
  return next;
}

}  // namespace ddprun
