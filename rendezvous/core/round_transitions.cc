// Round: from one state to the next.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/round.h"
#include "rendezvous/core/words.h"
#include "worker/contract/control.h"

namespace ddprun {

void Round::Advance() {
  if (finished_ || !spec_) return;
  if (roster_.empty() && abandoned_) {
    Finish(Outcome::kFailed, kExitUnavailable, "no agent is left");
    return;
  }
  switch (state_) {
    case RoundState::kGathering:
    case RoundState::kLastCall:
      AdvanceGathering();
      break;
    case RoundState::kForming:
      AdvanceForming();
      break;
    case RoundState::kRunning:
    case RoundState::kSaving:
      AdvanceRunning();
      break;
    case RoundState::kDraining:
      AdvanceDraining();
      break;
    case RoundState::kBackoff:
    case RoundState::kSucceeded:
    case RoundState::kFailed:
      break;
  }
}

void Round::AdvanceGathering() {
  // All have been heard, so that what is wrong everywhere is no reason to try other nodes.
  if (!unfit_host_.empty() && met_ >= spec_->all_nodes) {
    const auto step = roster_.empty() ? std::nullopt : DurableStep();
    if (!CanDoWithout(unfit_host_, why_unfit_, kExitUnavailable, step)) return;
  }
  if (hold_until_) return;
  const int free = roster_.free();
  const bool reforming = generation_.value >= 0;
  if (free >= spec_->max_nodes || (reforming && free >= spec_->min_nodes)) {
    Form();
  } else if (free >= spec_->min_nodes && state_ == RoundState::kGathering) {
    Enter(RoundState::kLastCall);
    deadline_ = now_ + spec_->last_call;
    Say(absl::StrCat("enough nodes; last call for ", Seconds(spec_->last_call)));
  } else if (free < spec_->min_nodes && state_ == RoundState::kLastCall) {
    Gather();
  }
}

void Round::AdvanceForming() {
  if (roster_.count(Phase::kAssigned) > 0) return;
  Enter(RoundState::kRunning);
  if (restore_) timeline_.Resume({epoch_, generation_, restore_->step()});
  deadline_.reset();
  started_at_ = now_;
  Tell({.kind = JobEvent::Kind::kStarted,
        .nodes = roster_.member_count(),
        .workers = tally_.world_size});
  for (Node* const node : roster_.members()) {
    if (node == nullptr) continue;
    roster_.SetPhase(*node, Phase::kStarted);
    SendTo(*node, Start{});  // one whose session broke hears it when it is back
  }
}

void Round::AdvanceRunning() {
  if (!incidents_.any()) {
    if (tally_.workers_succeeded == tally_.world_size && tally_.world_size > 0) {
      Finish(Outcome::kSucceeded, 0, "every worker exited with code 0");
    } else if (state_ == RoundState::kSaving) {
      if (plan_->saved || tally_.cannot_save >= roster_.member_count()) Drain(plan_->reason);
    } else if (plan_) {
      CarryOnPlan();  // of before a restart of the rendezvous
    } else {
      if (roster_.free() == 0) grow_at_.reset();
      if (!reports_checkpoints_) ConsiderGrowth();
    }
    return;
  }
  if (incidents_.OnlyVictims() && tally_.workers_ended < tally_.world_size) {
    if (!grace_until_) grace_until_ = now_ + options_.victim_grace;
    if (now_ < *grace_until_) return;
  }
  Drain(Describe(*incidents_.FindRootCause()));
}

// Takes in who came while the job runs: after a checkpoint, so that no work is lost. Where the
// workers report none, at the end of a last call, or at once when the job has all its nodes then.
void Round::ConsiderGrowth() {
  if (state_ != RoundState::kRunning || plan_ || tally_.workers_succeeded > 0) return;
  const int room = spec_->max_nodes - roster_.member_count();
  const int newcomers = std::min(roster_.free(), room);
  if (newcomers <= 0) return;
  if (!reports_checkpoints_ && newcomers < room) {
    if (!grow_at_) grow_at_ = now_ + spec_->last_call;
    if (now_ < *grow_at_) return;
  }
  Plan plan;
  plan.reason = absl::StrCat(Nodes(newcomers), " more ", newcomers == 1 ? "is" : "are", " here");
  StartPlan(std::move(plan));
}

void Round::AdvanceDraining() {
  if (roster_.member_count() == 0) OnGenerationEnded();
}

void Round::StartPlan(Plan plan) {
  AddToPlan(std::move(plan));
  if (plan_->stop || roster_.dismissed() > 0) Keep();  // before the operator is told
  CarryOnPlan();
}

void Round::AddToPlan(Plan plan) {
  if (!plan_) {
    plan_ = std::move(plan);
    return;
  }
  plan_->stop = plan_->stop || plan.stop;  // one is being saved for already
  plan_->save = plan_->save && plan.save;
  plan_->preempted = plan_->preempted || plan.preempted;
  plan_->reason = std::move(plan.reason);
}

void Round::CarryOnPlan() {
  if (!plan_->save || plan_->saved) {
    Drain(plan_->reason);
  } else if (state_ == RoundState::kRunning) {
    Enter(RoundState::kSaving);
    deadline_ = now_ + spec_->save_timeout;
    tally_.cannot_save = 0;
    Tell({.kind = JobEvent::Kind::kSaving, .reason = plan_->reason});
    Say(absl::StrCat("asking for a checkpoint: ", plan_->reason));
    for (Node* const node : roster_.members()) {
      if (node == nullptr) continue;
      node->cannot_save = false;
      SendTo(*node, Save{});
    }
  }
}

void Round::Drain(const std::string& reason) {
  Enter(RoundState::kDraining);
  planned_end_ = plan_.has_value() && !incidents_.any();
  deadline_.reset();
  grace_until_.reset();
  grow_at_.reset();
  ran_ = now_ - started_at_;
  stop_reason_ = reason;
  Tell({.kind = JobEvent::Kind::kStopping, .reason = reason});
  std::vector<Node*> gone;
  for (Node* const node : roster_.members()) {
    if (node == nullptr) continue;
    if (node->suspect && node->done()) {
      gone.push_back(node);  // it finished its part and went: no workers to wait for
    } else if (node->phase == Phase::kStarted) {
      SendTo(*node, Stop{reason});
    } else {
      roster_.SetPhase(*node, Phase::kWaiting);  // back after a break, and not started yet
    }
  }
  for (Node* const node : gone) Lose(*node, HowLost::kSilent, "its connection broke");
}

// No worker of the generation can be alive any more: what ended it, and does the job go on?
void Round::OnGenerationEnded() {
  if (planned_end_) {
    CarryOutPlan();
    return;
  }
  DDPRUN_CHECK(incidents_.any(), "a generation drains for a reason");
  RecordCause();
  const RootCause& cause = causes_.back();
  Tell({.kind = JobEvent::Kind::kFailed, .reason = Describe(cause), .cause = cause});
  if (plan_ && plan_->stop) {
    plan_->preempted ? FinishPlan(*plan_) : Finish(Outcome::kLeft, kExitTerminated, plan_->reason);
    return;
  }
  const auto decision = governor_->OnGenerationEnded({cause, made_step_, ran_}, now_);
  if (!decision.restart) {
    Finish(Outcome::kFailed, ExitCodeOf(cause), decision.reason);
    return;
  }
  if (!LeaveOut(cause)) return;
  Say(absl::StrCat(decision.reason, ": ", Describe(cause)));
  Tell({.kind = JobEvent::Kind::kRestarted,
        .reason = decision.reason,
        .restarts = governor_->restarts_used()});
  plan_.reset();
  DismissDrained();
  if (decision.delay > Duration{}) {
    Enter(RoundState::kBackoff);
    deadline_ = now_ + decision.delay;
    Say(absl::StrCat("no step was made: starting again in ", Seconds(decision.delay)));
    return;
  }
  Gather();
  AdvanceGathering();
}

std::string Round::WhyLeftOut() const {
  return absl::StrCat("its workers were the root cause ", spec_->quarantine,
                      spec_->quarantine == 1 ? " time" : " times", " within ",
                      Seconds(spec_->quarantine_window));
}

bool Round::LeaveOut(const RootCause& cause) {
  const std::string host = cause.failure.host;
  const bool of_the_node = cause.kind == RootCause::Kind::kWorkerFailed &&
                           cause.failure.exit.error_kind != control::kErrorBind;
  if (!of_the_node || !quarantine_->Count(host, now_)) return true;
  if (!CanDoWithout(host, WhyLeftOut(), ExitCodeOf(cause), DurableStep())) return false;
  for (Node& node : roster_.nodes()) {
    if (node.spec.host != host) continue;
    roster_.SetDismissed(node);
    node.why_dismissed = absl::StrCat("left out: ", WhyLeftOut());
  }
  return true;
}

bool Round::CanDoWithout(const std::string& host, const std::string& why, int exit_code,
                         std::optional<std::int64_t> step) {
  const int rest = spec_->all_nodes - static_cast<int>(quarantine_->hosts().size());
  if (spec_->all_nodes == 0 || rest >= spec_->min_nodes) return true;
  const std::string reason =
      absl::StrCat(host, " is left out, for ", why, ", and ", Nodes(rest), " of at least ",
                   spec_->min_nodes, rest == 1 ? " remains" : " remain");
  if (step) {
    Finish(Outcome::kPreempted, kExitPreempted,
           absl::StrCat(reason, "; the last checkpoint is of step ", *step));
  } else {
    Finish(Outcome::kFailed, exit_code, reason);
  }
  return false;
}

void Round::CarryOutPlan() {
  const Plan plan = *std::exchange(plan_, std::nullopt);
  incidents_ = Incidents(generation_);  // whatever ended, ended because of the plan
  if (plan.stop) {
    FinishPlan(plan);
    return;
  }
  saved_for_dismissed_ = plan.saved;
  DismissDrained();
  Tell({.kind = JobEvent::Kind::kRestarted,
        .reason = absl::StrCat("the membership changes: ", plan.reason),
        .restarts = restarts_used()});
  Gather();
  AdvanceGathering();
}

void Round::FinishPlan(const Plan& plan) {
  if (plan.saved) {
    Finish(Outcome::kPreempted, kExitPreempted,
           absl::StrCat(plan.reason, "; the state of step ", *checkpoint_, " is saved"));
  } else if (const auto step = DurableStep(); plan.preempted && step) {
    Finish(Outcome::kPreempted, kExitPreempted,
           absl::StrCat(plan.reason, "; no checkpoint was made for it, the last one is of step ",
                        *step));
  } else {
    Finish(Outcome::kLeft, kExitTerminated,
           absl::StrCat(plan.reason, "; no checkpoint was made for it"));
  }
}

void Round::DismissDrained() {
  std::vector<Node*> drained;
  for (Node& node : roster_.nodes()) {
    if (node.dismissed) drained.push_back(&node);
  }
  for (Node* const node : drained) Dismiss(*node, saved_for_dismissed_);
  saved_for_dismissed_ = false;
}

void Round::Dismiss(Node& node, bool saved) {
  const std::string reason =
      absl::StrCat(node.spec.host, " was ", node.why_dismissed, "; the job goes on without it",
                   saved ? absl::StrCat(", from step ", *checkpoint_) : "");
  SendTo(node, Finished{saved ? Outcome::kPreempted : Outcome::kLeft,
                        saved ? kExitPreempted : kExitTerminated,
                        reason,
                        restarts_used(),
                        {},
                        {},
                        failures_.total(),
                        LeftOut()});
  Tell({.kind = JobEvent::Kind::kLeft, .host = node.spec.host, .reason = node.why_dismissed});
  Say(reason);
  roster_.Erase(node);
}

void Round::Enter(RoundState next) {
  const auto allowed = [&]() -> bool {
    using enum RoundState;
    switch (state_) {
      case kGathering:
        return next != kRunning && next != kSaving && next != kDraining && next != kSucceeded;
      case kLastCall:
        return next == kGathering || next == kForming || next == kFailed;
      case kForming:
        return next == kGathering || next == kRunning || next == kFailed;
      case kRunning:
        return next == kSaving || next == kDraining || next == kSucceeded || next == kFailed;
      case kSaving:
        return next == kDraining || next == kSucceeded || next == kFailed;
      case kDraining:
        return next == kGathering || next == kBackoff || next == kFailed;
      case kBackoff:
        return next == kGathering || next == kFailed;
      case kSucceeded:
      case kFailed:
        return false;
    }
    return false;
  };
  DDPRUN_CHECK(allowed(), ToString(next));
  state_ = next;
  state_since_ = now_;
}

void Round::Gather() {
  Enter(RoundState::kGathering);
  deadline_ = now_ + spec_->join_timeout;
  tell_interval_ = options_.tell_after;
  tell_at_ = now_ + tell_interval_;
}

void Round::AbandonForming(const std::string& why) {
  Say(absl::StrCat("generation ", generation_.value, " is not started: ", why));
  for (Node& node : roster_.nodes()) roster_.SetPhase(node, Phase::kWaiting);
  Gather();
}

void Round::Form() {
  Enter(RoundState::kForming);
  deadline_ = now_ + options_.forming_timeout;
  tell_at_.reset();
  const Generation newest = std::max(generation_, floor_);
  generation_ = Generation{newest.value + 1};
  incidents_ = Incidents(generation_);
  tally_ = Tally{};
  made_step_ = false;
  planned_end_ = false;
  plan_.reset();
  lost_.clear();
  unfit_host_.clear();
  lost_silently_ = false;
  tally_.world_size = roster_.AssignRanks(spec_->max_nodes);
  const Node& first = *roster_.members().front();
  master_addr_ = spec_->master_addr.empty() ? first.spec.address : spec_->master_addr;
  master_port_ = spec_->master_port == 0 ? first.offered_port : spec_->master_port;
  PlanRestore(newest);
  Say(absl::StrCat("generation ", generation_.value, ": ", Nodes(roster_.member_count()), ", ",
                   tally_.world_size, " workers, master ", master_addr_, ":", master_port_,
                   restore_ ? "; " + Describe(*restore_) : ""));
  Keep();
  Tell({.kind = JobEvent::Kind::kFormed,
        .nodes = roster_.member_count(),
        .workers = tally_.world_size,
        .restarts = restarts_used(),
        .restore = restore_});
  for (const Node* const member : roster_.members()) SendTo(*member, AssignmentOf(*member));
}

void Round::RecordCause() {
  if (std::optional<RootCause> cause = incidents_.FindRootCause()) {
    causes_.push_back(*std::move(cause));
  }
  incidents_ = Incidents(generation_);
  constexpr std::size_t kMaxCauses = 64;
  if (causes_.size() > kMaxCauses) causes_.erase(causes_.begin());
}

void Round::Finish(Outcome outcome, int exit_code, std::string reason) {
  if (!planned_end_) RecordCause();
  Enter(outcome == Outcome::kSucceeded ? RoundState::kSucceeded : RoundState::kFailed);
  for (std::optional<TimePoint>* const time :
       {&deadline_, &grace_until_, &grow_at_, &tell_at_, &hold_until_}) {
    time->reset();
  }
  Finished finished{outcome,      exit_code, std::move(reason), restarts_used(),
                    std::nullopt, causes_,   failures_.total(), LeftOut()};
  if (outcome != Outcome::kSucceeded && !causes_.empty()) {
    finished.root_cause = std::move(finished.earlier.back());
    finished.earlier.pop_back();
  }
  for (RootCause& cause : finished.earlier) {  // one message must hold them all
    cause.victims.clear();
    cause.failure.exit.stderr_tail.clear();
  }
  // What else there was of them need not be kept as long as the job's end is.
  if (causes_.size() > 1) causes_.erase(causes_.begin(), causes_.end() - 1);
  Say(absl::StrCat(outcome == Outcome::kSucceeded ? "succeeded: " : "ended: ",
                   finished.root_cause ? Describe(*finished.root_cause) + "; " : "",
                   finished.reason));
  finished_ = finished;
  Keep();
  Tell({.kind = JobEvent::Kind::kFinished,
        .reason = finished.reason,
        .restarts = finished.restarts_used,
        .cause = finished.root_cause,
        .outcome = outcome,
        .exit_code = exit_code});
  for (const Node& node : roster_.nodes()) {
    if (!node.suspect) SendTo(node, finished);
  }
}

void Round::NoteLost(const std::string& host, const std::string& why) {
  constexpr std::size_t kMaxLost = 16;
  if (lost_.size() < kMaxLost) lost_.push_back(absl::StrCat(host, " (", why, ")"));
}

void Round::Lose(Node& node, HowLost how, const std::string& why) {
  const bool left = how == HowLost::kLeft;
  const bool needed = node.member() && !node.done();
  const Incarnation incarnation = node.incarnation;
  const std::string host = node.spec.host;
  const NodeRank rank = node.rank;
  roster_.Erase(node);
  Say(absl::StrCat(left ? "" : "lost ", host, left ? " left: " : ": ", why));
  Tell({.kind = left ? JobEvent::Kind::kLeft : JobEvent::Kind::kLost, .host = host, .reason = why});
  NoteLost(host, why);
  // One that was silent may come back.
  if (how == HowLost::kSilent) lost_silently_ = true;
  abandoned_ = !lost_silently_;
  if (!needed) return;
  if (state_ == RoundState::kForming) {
    AbandonForming(absl::StrCat(host, " is gone"));
  } else {
    incidents_.AddNode(incarnation, left ? RootCause::Kind::kNodeLeft : RootCause::Kind::kNodeLost,
                       host, rank,
                       why);  // Advance drains
  }
}

void Round::Supersede(std::uint32_t epoch) {
  if (spec_) {
    const std::string reason =
        epoch == epoch_ ? absl::StrCat("job ", job_, " was started again, with other settings")
                        : absl::StrCat("job ", job_, " was started again: epoch ", epoch,
                                       " takes the place of epoch ", epoch_);
    Say(reason);
    Tell({.kind = JobEvent::Kind::kSuperseded, .reason = reason});
    for (const Node& node : roster_.nodes()) {
      SendTo(node, Refused{reason});
      if (options_.leases && node.phase == Phase::kStarted) {
        hold_until_ = std::max(hold_until_.value_or(now_), node.heard + spec_->lease);
      }
    }
  }
  epoch_ = epoch;
  roster_.Clear();
  spec_.reset();  // the Join that is being handled brings the next one
  governor_.reset();
  quarantine_.reset();
  met_ = 0;
  state_ = RoundState::kGathering;
  state_since_ = now_;
  for (std::optional<TimePoint>* const time : {&deadline_, &grace_until_, &grow_at_, &tell_at_}) {
    time->reset();
  }
  floor_ = std::max(floor_, generation_);
  generation_ = Generation{-1};
  incidents_ = Incidents();
  tally_ = Tally{};
  plan_.reset();
  planned_end_ = abandoned_ = lost_silently_ = false;
  unfit_host_.clear();
  lost_.clear();
  causes_.clear();
  reports_checkpoints_ = false;
  checkpoint_.reset();
  told_of_states_ = false;  // timeline_ stays: states of the life before are still found on disks
  restore_.reset();
  failures_ = FailureTally();
}

}  // namespace ddprun
