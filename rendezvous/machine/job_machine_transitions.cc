// JobMachine: from one state to the next.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/limits.h"
#include "rendezvous/core/words.h"
#include "rendezvous/machine/job_machine.h"

namespace ddprun {

void JobMachine::Advance() {
  if (finished_ || !life_.spec) return;
  if (roster_.empty() && life_.abandoned) {
    Finish(Outcome::kFailed, kExitUnavailable, "no agent is left");
    return;
  }
  switch (state_) {
    case JobState::kGathering:
    case JobState::kLastCall:
      AdvanceGathering();
      break;
    case JobState::kForming:
      AdvanceForming();
      break;
    case JobState::kRunning:
    case JobState::kSaving:
      AdvanceRunning();
      break;
    case JobState::kStopping:
      AdvanceStopping();
      break;
    case JobState::kBackoff:
    case JobState::kSucceeded:
    case JobState::kFailed:
      break;
  }
}

void JobMachine::AdvanceGathering() {
  // All have been heard, so that what is wrong everywhere is no reason to try other nodes.
  if (!life_.absences.ineligible_host.empty() && life_.agents_joined >= life_.spec->all_nodes) {
    const auto step = roster_.empty() ? std::nullopt : DurableStep();
    if (!CanDoWithout(life_.absences.ineligible_host, life_.absences.why_ineligible,
                      kExitUnavailable, step))
      return;
  }
  if (hold_until_) return;
  const int free = roster_.free();
  const bool reforming = generation_.number.value >= 0;
  const bool closed = reforming || states_wait_;  // no last call is held any more
  if (free >= life_.spec->max_nodes || (closed && free >= life_.spec->min_nodes)) {
    FormWithAllStates();
  } else if (free >= life_.spec->min_nodes && state_ == JobState::kGathering) {
    Enter(JobState::kLastCall);
    timers_.state = now_ + life_.spec->last_call;
    Log(absl::StrCat("enough nodes; last call for ", Seconds(life_.spec->last_call)));
  } else if (free < life_.spec->min_nodes && (state_ == JobState::kLastCall || states_wait_)) {
    Gather();
  }
}

void JobMachine::AdvanceForming() {
  if (roster_.count(Phase::kAssigned) > 0) return;
  Enter(JobState::kRunning);
  if (generation_.restore)
    timeline_.Resume({life_.requeue_number, generation_.number, generation_.restore->step()});
  timers_.state.reset();
  generation_.started_at = now_;
  generation_.hang.Begin(now_);
  Emit({.kind = JobEvent::Kind::kStarted,
        .nodes = roster_.member_count(),
        .workers = generation_.tally.world_size});
  for (Node* const node : roster_.members()) {
    if (node == nullptr) continue;
    roster_.SetPhase(*node, Phase::kStarted);
    if (!std::exchange(node->stay.has_started, true)) node->stay.since = now_;
    SendTo(*node, Start{});  // one whose session broke hears it when it is back
  }
}

void JobMachine::AdvanceRunning() {
  if (!generation_.incidents.any()) {
    if (generation_.tally.workers_succeeded == generation_.tally.world_size &&
        generation_.tally.world_size > 0) {
      Finish(Outcome::kSucceeded, 0, "every worker exited with code 0");
    } else if (state_ == JobState::kSaving) {
      if (life_.plan->saved || generation_.tally.cannot_save >= roster_.member_count())
        StopGeneration(life_.plan->reason);
    } else if (life_.plan) {
      CarryOnPlan();  // of before a restart of the rendezvous
    } else {
      if (roster_.free() == 0) timers_.growth.reset();
      if (!life_.reports_checkpoints) ConsiderGrowth();
    }
    return;
  }
  if (generation_.incidents.OnlyVictims() &&
      generation_.tally.workers_ended < generation_.tally.world_size) {
    if (!timers_.victim_grace) timers_.victim_grace = now_ + options_.victim_grace;
    if (now_ < *timers_.victim_grace) return;
  }
  StopGeneration(Describe(*generation_.incidents.FindRootCause()));
}

// Takes in who came while the job runs: after a checkpoint, so that no work is lost. Where the
// workers report none, at the end of a last call, or at once when the job has all its nodes then.
void JobMachine::ConsiderGrowth() {
  if (state_ != JobState::kRunning || life_.plan || generation_.tally.workers_succeeded > 0) return;
  const int room = life_.spec->max_nodes - roster_.member_count();
  const int newcomers = std::min(roster_.free(), room);
  if (newcomers <= 0) return;
  if (!life_.reports_checkpoints && newcomers < room) {
    if (!timers_.growth) timers_.growth = now_ + life_.spec->last_call;
    if (now_ < *timers_.growth) return;
  }
  Plan plan;
  plan.reason = absl::StrCat(Nodes(newcomers), " more ", newcomers == 1 ? "is" : "are", " here");
  StartPlan(std::move(plan));
}

void JobMachine::AdvanceStopping() {
  if (roster_.member_count() == 0) OnGenerationEnded();
}

void JobMachine::StartPlan(Plan plan) {
  AddToPlan(std::move(plan));
  if (life_.plan->stop || roster_.removed() > 0) SaveRecord();  // before the operator is told
  CarryOnPlan();
}

void JobMachine::AddToPlan(Plan plan) {
  if (!life_.plan) {
    life_.plan = std::move(plan);
    return;
  }
  life_.plan->stop = life_.plan->stop || plan.stop;  // one is being saved for already
  life_.plan->save = life_.plan->save && plan.save;
  life_.plan->preempted = life_.plan->preempted || plan.preempted;
  life_.plan->reason = std::move(plan.reason);
}

void JobMachine::CarryOnPlan() {
  if (!life_.plan->save || life_.plan->saved) {
    StopGeneration(life_.plan->reason);
  } else if (state_ == JobState::kRunning) {
    Enter(JobState::kSaving);
    timers_.state = now_ + life_.spec->save_timeout;
    generation_.tally.cannot_save = 0;
    Emit({.kind = JobEvent::Kind::kSaving, .reason = life_.plan->reason});
    Log(absl::StrCat("asking for a checkpoint: ", life_.plan->reason));
    for (Node* const node : roster_.members()) {
      if (node == nullptr) continue;
      node->cannot_save = false;
      SendTo(*node, Save{});
    }
  }
}

void JobMachine::StopGeneration(const std::string& reason) {
  Enter(JobState::kStopping);
  generation_.planned_end = life_.plan.has_value() && !generation_.incidents.any();
  timers_.state.reset();
  timers_.victim_grace.reset();
  timers_.growth.reset();
  timers_.hang_again.reset();
  generation_.ran = now_ - generation_.started_at;
  generation_.stop_reason = reason;
  Emit({.kind = JobEvent::Kind::kStopping, .reason = reason});
  const auto cause = generation_.incidents.FindRootCause();
  std::vector<Node*> gone;
  for (Node* const node : roster_.members()) {
    if (node == nullptr) continue;
    if (node->suspect && node->done()) {
      gone.push_back(node);  // it finished its part and went: no workers to wait for
    } else if (node->phase == Phase::kStarted) {
      const bool hung =
          cause && cause->kind == RootCause::Kind::kHung && cause->failure.node_rank == node->rank;
      SendTo(*node,
             Stop{reason, look_,
                  hung ? std::vector{cause->failure.exit.local_rank} : std::vector<LocalRank>()});
    } else {
      Free(*node);  // back after a break, and not started yet
    }
  }
  for (Node* const node : gone) Lose(*node, HowLost::kSilent, "its connection broke");
}

// No worker of the generation can be alive any more: what ended it, and does the job go on?
void JobMachine::OnGenerationEnded() {
  if (generation_.planned_end) {
    CarryOutPlan();
    return;
  }
  DDPRUN_CHECK(generation_.incidents.any(), "a generation drains for a reason");
  RecordCause();
  const RootCause& cause = life_.causes.back();
  Emit({.kind = JobEvent::Kind::kFailed, .reason = Describe(cause), .cause = cause});
  if (life_.plan && life_.plan->stop) {
    life_.plan->preempted ? FinishPlan(*life_.plan)
                          : Finish(Outcome::kLeft, kExitTerminated, life_.plan->reason);
    return;
  }
  const std::string why_not_agent =
      UsesAgentStore() ? WhyNoAgentStore(cause, generation_.master_port) : "";
  if (!why_not_agent.empty()) LeaveStoreToWorker(why_not_agent);
  const auto decision =
      why_not_agent.empty()
          ? life_.governor->OnGenerationEnded({cause, generation_.furthest_step, HasNewState(),
                                               generation_.ran, generation_.start},
                                              now_)
          : RestartGovernor::Decision{true, {}, "no restart is spent on another store"};
  if (!decision.restart) {
    Finish(IsUnreadableState(cause) ? Outcome::kStateUnreadable : Outcome::kFailed,
           ExitCodeOf(cause), decision.reason);
    return;
  }
  if (why_not_agent.empty() && !Exclude(cause)) return;
  Log(absl::StrCat(decision.reason, ": ", Describe(cause)));
  Emit({.kind = JobEvent::Kind::kRestarted,
        .reason = decision.reason,
        .restarts = life_.governor->restarts_used()});
  life_.plan.reset();
  RemoveDrained();
  if (decision.delay > Duration{}) {
    Enter(JobState::kBackoff);
    timers_.state = now_ + decision.delay;
    Log(absl::StrCat("its workers crash soon after the start: starting again in ",
                     Seconds(decision.delay)));
    return;
  }
  Gather();
  AdvanceGathering();
}

void JobMachine::OnStoreElsewhere(const Node& node, const StoreElsewhere& elsewhere) {
  if (!running() || !UsesAgentStore()) return;
  const std::string why =
      absl::StrCat("a worker on ", node.spec.host, " looks for torch's store at ", elsewhere.where,
                   ", not at MASTER_PORT");
  LeaveStoreToWorker(why);
  Plan plan;
  plan.reason = why;
  plan.for_store = true;
  StartPlan(std::move(plan));
}

void JobMachine::LeaveStoreToWorker(const std::string& why) {
  life_.needs_worker_store = true;
  WarnAll(absl::StrCat(why,
                       ": rank 0's worker serves the store from the next generation on, and no "
                       "restart is spent; --store worker does so from the start"));
}

std::string JobMachine::WhyExcluded(const std::string& host) const {
  const int hangs = life_.quarantine->HangsOf(host);
  if (life_.spec->hang_quarantine > 0 && hangs >= life_.spec->hang_quarantine) {
    return absl::StrCat("its ranks hung ", hangs, hangs == 1 ? " time" : " times");
  }
  return absl::StrCat("its workers were the root cause ", life_.spec->quarantine,
                      life_.spec->quarantine == 1 ? " time" : " times", " within ",
                      Seconds(life_.spec->quarantine_window));
}

bool JobMachine::Exclude(const RootCause& cause) {
  if (cause.kind == RootCause::Kind::kHung) {
    ExcludeForHangs(generation_.hung_host);
    return true;
  }
  const std::string host = cause.failure.host;
  const bool of_the_node =
      cause.kind == RootCause::Kind::kWorkerFailed && !IsTakenPort(cause.failure.exit);
  if (!of_the_node || !life_.quarantine->Count(host, now_)) return true;
  if (!CanDoWithout(host, WhyExcluded(host), ExitCodeOf(cause), DurableStep())) return false;
  RemoveExcluded(host);
  return true;
}

void JobMachine::ExcludeForHangs(const std::string& host) {
  if (host.empty()) return;
  life_.quarantine->CountHang(host);
  const int limit = life_.spec->hang_quarantine;
  if (limit == 0 || life_.quarantine->HangsOf(host) < limit) return;
  if (!IsReplaceable(host)) {
    Log(absl::StrCat(host, " stays in the job, although ", WhyExcluded(host),
                     ": no other node waits to take its place"));
    return;
  }
  if (life_.quarantine->Exclude(host)) RemoveExcluded(host);
}

// A spare waits for each of its nodes. Those of the generation that has ended are all free by now,
// but for who has stuck processes.
bool JobMachine::IsReplaceable(const std::string& host) const {
  const auto& nodes = roster_.nodes();
  const auto others = std::count_if(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.free() && !node.removed && node.spec.host != host;
  });
  return others >= static_cast<std::ptrdiff_t>(roster_.members().size());
}

void JobMachine::RemoveExcluded(const std::string& host) {
  for (Node& node : roster_.nodes()) {
    if (node.spec.host != host) continue;
    roster_.SetRemoved(node);
    node.why_removed = absl::StrCat("left out: ", WhyExcluded(host));
  }
}

bool JobMachine::CanDoWithout(const std::string& host, const std::string& why, int exit_code,
                              std::optional<std::int64_t> step) {
  const int rest = life_.spec->all_nodes - static_cast<int>(life_.quarantine->hosts().size());
  if (life_.spec->all_nodes == 0 || rest >= life_.spec->min_nodes) return true;
  const std::string reason =
      absl::StrCat(host, " is left out, for ", why, ", and ", Nodes(rest), " of at least ",
                   life_.spec->min_nodes, rest == 1 ? " remains" : " remain");
  if (step) {
    Finish(Outcome::kPreempted, kExitPreempted,
           absl::StrCat(reason, "; the last checkpoint is of step ", *step));
  } else {
    Finish(Outcome::kFailed, exit_code, reason);
  }
  return false;
}

void JobMachine::CarryOutPlan() {
  const Plan plan = *std::exchange(life_.plan, std::nullopt);
  generation_.incidents =
      Incidents(generation_.number);  // whatever ended, ended because of the plan
  if (plan.stop) {
    FinishPlan(plan);
    return;
  }
  life_.saved_for_removed = plan.saved;
  RemoveDrained();
  Emit({.kind = JobEvent::Kind::kRestarted,
        .reason = absl::StrCat(plan.for_store ? "" : "the membership changes: ", plan.reason),
        .restarts = restarts_used()});
  Gather();
  AdvanceGathering();
}

void JobMachine::FinishPlan(const Plan& plan) {
  const auto step = DurableStep();
  // The last of several warnings may come after the save, and before a worker goes on.
  const bool none_since = generation_.started_at == TimePoint{} || step == FurthestPossibleStep();
  const bool saved_before = plan.preempted && step && none_since && NewestKnownStep() <= *step;
  if (plan.saved || saved_before) {
    Finish(Outcome::kPreempted, kExitPreempted,
           absl::StrCat(plan.reason, "; the state of step ", *step, " is saved"));
  } else if (plan.preempted && step) {
    Finish(Outcome::kPreempted, kExitPreempted,
           absl::StrCat(plan.reason, "; no checkpoint was made for it, the last one is of step ",
                        *step));
  } else {
    Finish(Outcome::kLeft, kExitTerminated,
           absl::StrCat(plan.reason, "; no checkpoint was made for it"));
  }
}

void JobMachine::RemoveDrained() {
  std::vector<Node*> drained;
  for (Node& node : roster_.nodes()) {
    if (node.removed) drained.push_back(&node);
  }
  for (Node* const node : drained) Remove(*node, life_.saved_for_removed);
  life_.saved_for_removed = false;
}

void JobMachine::Remove(Node& node, bool saved) {
  const std::string reason =
      absl::StrCat(node.spec.host, " was ", node.why_removed, "; the job goes on without it",
                   saved ? absl::StrCat(", from step ", *life_.checkpoint) : "");
  SendTo(node, Finished{saved ? Outcome::kPreempted : Outcome::kLeft,
                        saved ? kExitPreempted : kExitTerminated,
                        reason,
                        restarts_used(),
                        {},
                        {},
                        life_.failures.total(),
                        ExcludedHosts()});
  Emit({.kind = JobEvent::Kind::kLeft, .host = node.spec.host, .reason = node.why_removed});
  Log(reason);
  Erase(node);
}

void JobMachine::Enter(JobState next) {
  const auto allowed = [&]() -> bool {
    using enum JobState;
    switch (state_) {
      case kGathering:
        return next != kRunning && next != kSaving && next != kStopping && next != kSucceeded;
      case kLastCall:
        return next == kGathering || next == kForming || next == kFailed;
      case kForming:
        return next == kGathering || next == kRunning || next == kFailed;
      case kRunning:
        return next == kSaving || next == kStopping || next == kSucceeded || next == kFailed;
      case kSaving:
        return next == kStopping || next == kSucceeded || next == kFailed;
      case kStopping:
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

void JobMachine::Gather() {
  Enter(JobState::kGathering);
  states_wait_.reset();
  timers_.state = now_ + life_.spec->join_timeout;
  timers_.report_interval = options_.tell_after;
  timers_.report = now_ + timers_.report_interval;
}

void JobMachine::AbandonForming(const std::string& why) {
  Log(absl::StrCat("generation ", generation_.number.value, " is not started: ", why));
  for (Node& node : roster_.nodes()) roster_.SetPhase(node, Phase::kWaiting);
  asks_to_look_ = true;
  Gather();
}

// A plan that leaves out the newest state loses work for good: later generations discard it.
void JobMachine::FormWithAllStates() {
  AskToLookAgain();
  if (roster_.states_pending() > 0 && !states_wait_) {
    const std::optional<std::int64_t> enough = FurthestPossibleStep();
    if (!enough || NewestKnownStep() < *enough) {
      states_wait_ = StatesWait{now_ + life_.spec->join_timeout, enough};
      timers_.state.reset();
      timers_.report_interval = options_.tell_after;
      timers_.report = now_ + timers_.report_interval;
    }
  }
  if (roster_.states_pending() > 0 && states_wait_) {
    if (now_ < states_wait_->until) return;
    Log(absl::StrCat("going on without the states of ", HostsWithPendingStates(View())));
  }
  Form();
}

void JobMachine::Form() {
  Enter(JobState::kForming);
  states_wait_.reset();
  timers_.state = now_ + options_.forming_timeout;
  timers_.report.reset();
  const StateJudge judge = View().judge();  // of what the last generation left
  DropStacks("its workers have ended");
  generation_ = GenerationState(Generation{newest_generation().value + 1});
  life_.plan.reset();
  life_.absences = Absences{};
  if (life_.run_id == RunId{}) life_.run_id = DrawRunId();
  generation_.tally.world_size = roster_.AssignRanks(life_.spec->max_nodes);
  const Node& first = *roster_.members().front();
  generation_.master_addr =
      life_.spec->master_addr.empty() ? first.spec.address : life_.spec->master_addr;
  generation_.master_port =
      life_.spec->master_port == 0 ? first.offered_port : life_.spec->master_port;
  PlanRestore(judge);
  Log(absl::StrCat("generation ", generation_.number.value, ": ", Nodes(roster_.member_count()),
                   ", ", generation_.tally.world_size, " workers, master ", generation_.master_addr,
                   ":", generation_.master_port,
                   generation_.restore ? "; " + Describe(*generation_.restore) : ""));
  SaveRecord();
  Emit({.kind = JobEvent::Kind::kFormed,
        .nodes = roster_.member_count(),
        .workers = generation_.tally.world_size,
        .restarts = restarts_used(),
        .restore = generation_.restore});
  for (const Node* const member : roster_.members()) SendTo(*member, AssignmentOf(*member));
}

// Of two ranks both are known, also where the program does not tell of its collectives.
std::string JobMachine::WhyMismatch(const WorkerExited& exit) const {
  if (auto calls = generation_.calls.Mismatch()) return *std::move(calls);
  const bool both_known = generation_.tally.world_size == 2 && IsMismatchOfSizes(exit);
  return both_known ? "ranks 0 and 1 entered a collective with different sizes" : "";
}

void JobMachine::RecordCause() {
  if (std::optional<RootCause> cause = generation_.incidents.FindRootCause()) {
    if (MayBeOfAMismatch(*cause)) cause->reason = WhyMismatch(cause->failure.exit);
    life_.causes.push_back(*std::move(cause));
  }
  generation_.incidents = Incidents(generation_.number);
  if (life_.causes.size() > kMaxEarlierCauses) life_.causes.erase(life_.causes.begin());
}

void JobMachine::Finish(Outcome outcome, int exit_code, std::string reason) {
  if (!generation_.planned_end) RecordCause();
  DropStacks("the job is over");
  Enter(outcome == Outcome::kSucceeded ? JobState::kSucceeded : JobState::kFailed);
  timers_ = Timers{};
  states_wait_.reset();
  hold_until_.reset();
  Finished finished{outcome,
                    exit_code,
                    std::move(reason),
                    restarts_used(),
                    std::nullopt,
                    life_.causes,
                    life_.failures.total(),
                    ExcludedHosts(),
                    /*job_is_over=*/true};
  if (outcome != Outcome::kSucceeded && !life_.causes.empty()) {
    finished.root_cause = std::move(finished.earlier.back());
    finished.earlier.pop_back();
  }
  for (RootCause& cause : finished.earlier) {  // one message must hold them all
    cause.victims.clear();
    auto& tail = cause.failure.exit.stderr_tail;
    tail = NewestLines(tail, tail.size(), kMaxEarlierTailBytes);
  }
  // What else there was of them need not be kept as long as the job's end is.
  if (life_.causes.size() > 1) life_.causes.erase(life_.causes.begin(), life_.causes.end() - 1);
  Log(absl::StrCat(outcome == Outcome::kSucceeded ? "succeeded: " : "ended: ",
                   finished.root_cause ? Describe(*finished.root_cause) + "; " : "",
                   finished.reason));
  finished_ = finished;
  SaveRecord();
  Emit({.kind = JobEvent::Kind::kFinished,
        .reason = finished.reason,
        .restarts = finished.restarts_used,
        .cause = finished.root_cause,
        .outcome = outcome,
        .exit_code = exit_code});
  for (const Node& node : roster_.nodes()) {
    if (!node.suspect) SendTo(node, finished);
  }
}

void JobMachine::NoteLost(const std::string& host, const std::string& why) {
  constexpr std::size_t kMaxLost = 16;
  if (life_.absences.lost.size() < kMaxLost)
    life_.absences.lost.push_back(absl::StrCat(host, " (", why, ")"));
}

void JobMachine::Lose(Node& node, HowLost how, const std::string& why) {
  const bool left = how == HowLost::kLeft;
  const bool needed = node.member() && !node.done();
  const AgentId agent_id = node.agent_id;
  const std::string host = node.spec.host;
  const NodeRank rank = node.rank;
  if (needed && !left) life_.late_admission.OnLost(node.spec, now_ - node.stay.since);
  Erase(node);
  Log(absl::StrCat(left ? "" : "lost ", host, left ? " left: " : ": ", why));
  Emit({.kind = left ? JobEvent::Kind::kLeft : JobEvent::Kind::kLost, .host = host, .reason = why});
  NoteLost(host, why);
  // One that was silent may come back.
  if (how == HowLost::kSilent) life_.absences.lost_silently = true;
  life_.abandoned = !life_.absences.lost_silently;
  if (!needed) return;
  if (state_ == JobState::kForming) {
    AbandonForming(absl::StrCat(host, " is gone"));
  } else {
    generation_.incidents.AddNode(
        agent_id, left ? RootCause::Kind::kNodeLeft : RootCause::Kind::kNodeLost, host, rank,
        why);  // Advance drains
  }
}

void JobMachine::Supersede(std::uint32_t requeue_number) {
  if (life_.spec) {
    const std::string reason =
        requeue_number == life_.requeue_number
            ? absl::StrCat("job ", job_, " was started again, with other settings")
            : absl::StrCat("job ", job_, " was started again: requeue number ", requeue_number,
                           " takes the place of requeue number ", life_.requeue_number);
    Log(reason);
    Emit({.kind = JobEvent::Kind::kSuperseded, .reason = reason});
    for (const Node& node : roster_.nodes()) {
      SendTo(node, Refused{reason});
      if (options_.leases && node.phase == Phase::kStarted) {
        hold_until_ = std::max(hold_until_.value_or(now_), node.heard + life_.spec->lease);
      }
    }
  }
  roster_.Clear();
  DropStacks("the job was started again");
  highest_claimed_ = newest_generation();
  life_ = JobLife(requeue_number);  // the Join that is being handled brings its JobSpec
  generation_ = GenerationState{};
  timers_ = Timers{};
  states_wait_.reset();
  state_ = JobState::kGathering;
  state_since_ = now_;
  LoseSight();
  // timeline_ stays: states of the life before are still found on disks.
}

}  // namespace ddprun
