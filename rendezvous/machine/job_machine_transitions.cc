// JobMachine: transitions between states.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/limits.h"
#include "rendezvous/core/words.h"
#include "rendezvous/machine/job_machine.h"
#include "rendezvous/machine/job_transition.h"
#include "rendezvous/machine/nodes/admission.h"
#include "rendezvous/machine/states/known_states.h"
#include "rendezvous/machine/states/restore_choice.h"
#include "worker/contract/job_name.h"

namespace ddprun {

void JobMachine::Advance() {
  if (finished_ || !life_.spec) return;
  if (roster_.empty() && life_.abandoned) {
    Finish({Outcome::kFailed, kExitUnavailable, "no agent is left"});
    return;
  }
  switch (state()) {
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
  // Decides once all agents have joined. If every node is unfit, the job ends as kFailed, not as
  // kPreempted, because another start on other nodes would not help.
  if (!generation_.absences.ineligible_host.empty() &&
      life_.agents_joined >= life_.spec->all_nodes) {
    const auto step = roster_.empty() ? std::nullopt : DurableStep(View());
    if (!CanDoWithout({generation_.absences.ineligible_host, generation_.absences.why_ineligible,
                       kExitUnavailable, step})) {
      return;
    }
  }
  if (life_.hold_until) return;
  const int free = roster_.free();
  const bool reforming = generation_.number.value >= 0;
  const bool closed = reforming || survey_.waits();  // no last call
  if (free >= life_.spec->max_nodes || (closed && free >= life_.spec->min_nodes)) {
    FormWithAllStates();
  } else if (free >= life_.spec->min_nodes && state() == JobState::kGathering) {
    Enter(JobState::kLastCall, now_ + life_.spec->last_call);
    out_.Log(absl::StrCat("enough nodes; last call for ", Seconds(life_.spec->last_call)));
  } else if (free < life_.spec->min_nodes && (state() == JobState::kLastCall || survey_.waits())) {
    Gather();
  }
}

void JobMachine::AdvanceForming() {
  if (roster_.count(Phase::kAssigned) > 0) return;
  Enter(JobState::kRunning);
  if (generation_.restore)
    timeline_.Resume(
        {life_.requeue_number, generation_.number, generation_.restore->highest_step()});
  generation_.started_at = now_;
  generation_.hang.Begin(now_);
  out_.Emit({.kind = JobEvent::Kind::kStarted,
             .nodes = roster_.member_count(),
             .workers = generation_.tally.world_size});
  const auto start = JobOutbox::Share(Start{});
  for (Node* const node : roster_.members()) {
    if (node == nullptr) continue;
    roster_.SetPhase(*node, Phase::kStarted);
    if (!std::exchange(node->stay.has_started, true)) node->stay.since = now_;
    node->stay.taken_in = false;
    out_.SendTo(*node, start);  // a node without a session gets it when it is back
  }
}

void JobMachine::AdvanceRunning() {
  if (!generation_.incidents.any()) {
    if (generation_.tally.workers_succeeded == generation_.tally.world_size &&
        generation_.tally.world_size > 0) {
      Finish({Outcome::kSucceeded, 0, "every worker exited with code 0"});
    } else if (state() == JobState::kSaving) {
      if (generation_.plan->saved || generation_.tally.cannot_save >= roster_.member_count())
        StopGeneration(generation_.plan->reason);
    } else if (generation_.plan) {
      CarryOnPlan();  // a plan from before the rendezvous restarted
    } else {
      if (roster_.free() == 0) generation_.growth.reset();
      if (!life_.reports_checkpoints) ConsiderGrowth();
    }
    return;
  }
  if (generation_.incidents.OnlyVictims() &&
      generation_.tally.workers_ended < generation_.tally.world_size) {
    if (!generation_.victim_grace) generation_.victim_grace = now_ + options_.victim_grace;
    if (now_ < *generation_.victim_grace) return;
  }
  StopGeneration(Describe(*generation_.incidents.FindRootCause()));
}

// Lets nodes join the running job. If workers report checkpoints: after a checkpoint, so that no
// work is lost. Otherwise after a last call, or at once if the job is then complete.
void JobMachine::ConsiderGrowth() {
  const int newcomers = Newcomers();
  if (newcomers == 0) return;
  const int room = life_.spec->max_nodes - roster_.member_count();
  if (!life_.reports_checkpoints && newcomers < room) {
    if (!generation_.growth) generation_.growth = now_ + life_.spec->last_call;
    if (now_ < *generation_.growth) return;
  }
  for (Node& node : roster_.nodes()) node.stay.taken_in = node.stay.taken_in || node.free();
  Plan plan;
  plan.reason = absl::StrCat(Nodes(newcomers), " more ", newcomers == 1 ? "is" : "are", " here");
  StartPlan(std::move(plan));
}

int JobMachine::Newcomers() const {
  const bool grows = state() == JobState::kRunning && !generation_.plan &&
                     generation_.tally.workers_succeeded == 0;
  const int room = life_.spec->max_nodes - roster_.member_count();
  return grows ? std::max(std::min(roster_.free(), room), 0) : 0;
}

void JobMachine::AdvanceStopping() {
  if (roster_.member_count() == 0) OnGenerationEnded();
}

void JobMachine::StopGeneration(const std::string& reason) {
  Enter(JobState::kStopping);
  generation_.planned_end = generation_.plan.has_value() && !generation_.incidents.any();
  generation_.ran = now_ - generation_.started_at;
  generation_.stop_reason = reason;
  out_.Emit({.kind = JobEvent::Kind::kStopping, .reason = reason});
  const auto cause = generation_.incidents.FindRootCause();
  const auto stop = JobOutbox::Share(Stop{reason, survey_.look()});
  std::vector<Node*> gone;
  for (Node* const node : roster_.members()) {
    if (node == nullptr) continue;
    if (node->suspect && node->done()) {
      gone.push_back(node);  // its workers are done and its agent is gone, so do not wait for it
    } else if (node->phase == Phase::kStarted) {
      const bool hung =
          cause && cause->kind == RootCause::Kind::kHung && cause->failure.node_rank == node->rank;
      if (hung) {
        out_.SendTo(*node, Stop{reason, survey_.look(), {cause->failure.exit.local_rank}});
      } else {
        out_.SendTo(*node, stop);
      }
    } else {
      FreeUnstarted(*node);  // back after a broken session
    }
  }
  for (Node* const node : gone) Lose(*node, HowLost::kSilent, "its connection broke");
}

// No worker of the generation runs any more. Decides whether the job continues.
void JobMachine::OnGenerationEnded() {
  const std::optional<Plan> plan = std::exchange(generation_.plan, std::nullopt);
  if (generation_.planned_end) {
    CarryOut(*plan);
    return;
  }
  DDPRUN_CHECK(generation_.incidents.any(), "a generation stops for a reason");
  RecordCause();
  const RootCause& cause = life_.causes.back();
  out_.Emit({.kind = JobEvent::Kind::kFailed, .reason = Describe(cause), .cause = cause});
  if (plan && plan->stop) {
    Finish(plan->preempted ? EndAsPlanned(View(), *plan)
                           : JobEnd{Outcome::kLeft, kExitTerminated, plan->reason});
    return;
  }
  const std::string why_not_agent =
      life_.uses_agent_store() ? WhyNoAgentStore(cause, generation_.master_port) : "";
  if (!why_not_agent.empty()) LeaveStoreToWorker(why_not_agent);
  const auto decision =
      why_not_agent.empty()
          ? life_.governor->OnGenerationEnded(
                {cause, generation_.furthest_step, HasNewState(View()), generation_.ran,
                 generation_.start},
                now_)
          : RestartGovernor::Decision{true, {}, "no restart is spent on another store"};
  if (!decision.restart) {
    Finish({IsUnreadableState(cause) ? Outcome::kStateUnreadable : Outcome::kFailed,
            ExitCodeOf(cause), decision.reason});
    return;
  }
  if (why_not_agent.empty() && !Exclude(cause)) return;
  life_.counters.AddRestart(NameOf(cause.kind));
  out_.Log(absl::StrCat(decision.reason, ": ", Describe(cause)));
  out_.Emit({.kind = JobEvent::Kind::kRestarted,
             .reason = decision.reason,
             .restarts = life_.governor->restarts_used()});
  RemoveMarkedNodes(/*saved=*/false);
  if (decision.delay > Duration{}) {
    Enter(JobState::kBackoff, now_ + decision.delay);
    out_.Log(absl::StrCat("its workers crash soon after the start: starting again in ",
                          Seconds(decision.delay)));
    return;
  }
  Gather();
  AdvanceGathering();
}

void JobMachine::OnStoreElsewhere(const Node& node, const StoreElsewhere& elsewhere) {
  if (!running() || !life_.uses_agent_store()) return;
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
  out_.WarnAll(roster_,
               absl::StrCat(why,
                            ": rank 0's worker serves the store from the next generation on, and "
                            "no restart is spent; --store worker does so from the start"));
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
  if (!CanDoWithout({host, WhyExcluded(life_, host), ExitCodeOf(cause), DurableStep(View())})) {
    return false;
  }
  RemoveExcluded(host);
  return true;
}

void JobMachine::ExcludeForHangs(const std::string& host) {
  if (host.empty()) return;
  life_.quarantine->CountHang(host);
  const int limit = life_.spec->hang_quarantine;
  if (limit == 0 || life_.quarantine->HangsOf(host) < limit) return;
  if (!IsReplaceable(roster_, host)) {
    out_.Log(absl::StrCat(host, " stays in the job, although ", WhyExcluded(life_, host),
                          ": no other node waits to take its place"));
    return;
  }
  if (life_.quarantine->Exclude(host)) RemoveExcluded(host);
}

void JobMachine::RemoveExcluded(const std::string& host) {
  for (Node& node : roster_.nodes()) {
    if (node.spec.host != host) continue;
    roster_.SetRemoved(node);
    node.why_removed = absl::StrCat("left out: ", WhyExcluded(life_, host));
  }
}

bool JobMachine::CanDoWithout(const Exclusion& exclusion) {
  std::optional<JobEnd> end = EndWithout(life_, exclusion);
  if (end) Finish(*std::move(end));
  return !end;
}

void JobMachine::Enter(JobState next, std::optional<TimePoint> deadline) {
  DDPRUN_CHECK(IsTransition(state(), next), ToString(next));
  life_.stage = {next, now_, deadline};
  if (next == JobState::kRunning && !life_.state_times.start) life_.state_times.start = now_;
}

void JobMachine::Gather() {
  const TimePoint from = std::max(now_, life_.hold_until.value_or(now_));
  Enter(JobState::kGathering, from + life_.spec->join_timeout);
  life_.gathering = {now_ + options_.tell_after, options_.tell_after};
  // No rank trains now, so nobody waits for a node that loads.
  for (Node& node : roster_.nodes()) held_back_.EndLoading(node);
}

void JobMachine::AbandonForming(const std::string& why) {
  out_.Log(absl::StrCat("generation ", generation_.number.value, " is not started: ", why));
  for (Node& node : roster_.nodes()) {
    if (node.member()) Free(node);
  }
  survey_.SetToAsk();
  Gather();
}

void JobMachine::FormWithAllStates() {
  survey_.AskToLookAgain(View());
  const bool waited = survey_.waits();
  if (!survey_.Awaits(View())) {
    Form();
  } else if (!waited) {
    life_.stage.deadline.reset();
    life_.gathering.report_interval = options_.tell_after;
    life_.gathering.report = now_ + life_.gathering.report_interval;
  }
}

void JobMachine::Form() {
  Enter(JobState::kForming, now_ + options_.forming_timeout);
  life_.gathering = {};
  const StateJudge judge = View().judge();  // judged against the last generation
  stacks_.Drop("its workers have ended");
  generation_ = GenerationState(Generation{newest_generation().value + 1});
  if (life_.run_id == RunId{}) life_.run_id = numbers_.DrawRunId(roster_);
  generation_.tally.world_size = roster_.AssignRanks(life_.spec->max_nodes);
  const Node& first = *roster_.members().front();
  generation_.master_addr =
      life_.spec->master_addr.empty() ? first.spec.address : life_.spec->master_addr;
  generation_.master_port =
      life_.spec->master_port == 0 ? first.offered_port : life_.spec->master_port;
  PlanRestore(judge);
  out_.Log(absl::StrCat("generation ", generation_.number.value, ": ",
                        Nodes(roster_.member_count()), ", ", generation_.tally.world_size,
                        " workers, master ", generation_.master_addr, ":", generation_.master_port,
                        generation_.restore ? "; " + Describe(*generation_.restore) : ""));
  SaveRecord();
  std::vector<JobEvent::Placed> placed;
  if (generation_.tally.world_size <= JobEvent::kMaxPlacedRanks) {
    for (const Node* const member : roster_.members()) {
      placed.push_back(
          {member->spec.host, member->agent_id, member->first_rank, member->spec.worker_count});
    }
  }
  out_.Emit({.kind = JobEvent::Kind::kFormed,
             .nodes = roster_.member_count(),
             .workers = generation_.tally.world_size,
             .restarts = restarts_used(),
             .restore = generation_.restore,
             .placed = std::move(placed)});
  const JobView view = View();
  out_.Expect(roster_.member_count());
  for (const Node* const member : roster_.members())
    out_.SendTo(*member, AssignmentOf(view, *member));
}

// With two ranks, it is clear which ranks do not match, even if the program does not report its
// collectives.
std::string JobMachine::WhyMismatch(const WorkerExited& exit) const {
  if (auto calls = generation_.calls.Mismatch()) return *std::move(calls);
  const bool both_known = generation_.tally.world_size == 2 && IsMismatchOfSizes(exit);
  return both_known ? "ranks 0 and 1 entered a collective with different sizes" : "";
}

void JobMachine::RecordCause() {
  const Incidents ended = std::exchange(generation_.incidents, Incidents(generation_.number));
  if (std::optional<RootCause> cause = ended.FindRootCause()) {
    if (MayBeOfAMismatch(*cause)) cause->reason = WhyMismatch(cause->failure.exit);
    life_.causes.push_back(*std::move(cause));
  }
  // Keeps the first cause: it often explains the others.
  if (life_.causes.size() > kMaxEarlierCauses) life_.causes.erase(life_.causes.begin() + 1);
}

void JobMachine::Finish(JobEnd end) {
  const Outcome outcome = end.outcome;
  if (!generation_.planned_end) RecordCause();
  stacks_.Drop("the job is over");
  Enter(outcome == Outcome::kSucceeded ? JobState::kSucceeded : JobState::kFailed);
  const Finished finished = FinishedForAll(life_, std::move(end));
  // The other causes need not be kept as long as the job's end.
  if (life_.causes.size() > 1) life_.causes.erase(life_.causes.begin(), life_.causes.end() - 1);
  out_.Log(absl::StrCat(outcome == Outcome::kSucceeded ? "succeeded: " : "ended: ",
                        finished.root_cause ? Describe(*finished.root_cause) + "; " : "",
                        finished.reason));
  finished_ = finished;
  SaveRecord();
  out_.Emit({.kind = JobEvent::Kind::kFinished,
             .reason = finished.reason,
             .restarts = finished.restarts_used,
             .cause = finished.root_cause,
             .outcome = outcome,
             .exit_code = finished.exit_code});
  const auto told = JobOutbox::Share(finished);
  for (const Node& node : roster_.nodes()) {
    if (!node.suspect) out_.SendTo(node, told);
  }
}

void JobMachine::NoteLost(const std::string& host, const std::string& why) {
  constexpr std::size_t kMaxLost = 16;
  if (generation_.absences.lost.size() < kMaxLost)
    generation_.absences.lost.push_back(absl::StrCat(host, " (", why, ")"));
}

void JobMachine::Lose(Node& node, HowLost how, const std::string& why) {
  const bool left = how == HowLost::kLeft;
  const bool needed = node.member() && !node.done();
  const AgentId agent_id = node.agent_id;
  const std::string host = node.spec.host;
  const NodeRank rank = node.rank;
  // The loss costs the other nodes a restart, now or soon.
  if (needed || node.stay.taken_in) {
    life_.late_admission.OnLost(node.spec, now_ - node.stay.since);
  }
  Erase(node);
  if (!left) ++life_.counters.nodes_lost;
  out_.Log(absl::StrCat(left ? "" : "lost ", host, left ? " left: " : ": ", why));
  out_.Emit({.kind = left ? JobEvent::Kind::kLeft : JobEvent::Kind::kLost,
             .host = host,
             .agent_id = agent_id,
             .reason = why});
  NoteLost(host, why);
  // A silent node may come back.
  if (how == HowLost::kSilent) generation_.absences.lost_silently = true;
  life_.abandoned = !generation_.absences.lost_silently;
  if (!needed) return;
  if (state() == JobState::kForming) {
    AbandonForming(absl::StrCat(host, " is gone"));
  } else {
    generation_.incidents.AddNode(
        agent_id, left ? RootCause::Kind::kNodeLeft : RootCause::Kind::kNodeLost, host, rank,
        why);  // Advance() stops the generation
  }
}

void JobMachine::Supersede(std::uint32_t requeue_number) {
  JobLife next(requeue_number, now_);  // OnJoin() then sets its JobSpec
  next.hold_until = life_.hold_until;
  if (life_.spec) {
    const std::string reason =
        requeue_number == life_.requeue_number
            ? absl::StrCat(NameOfJob(job_), " was started again, with other settings")
            : absl::StrCat(NameOfJob(job_), " was started again: requeue number ", requeue_number,
                           " takes the place of requeue number ", life_.requeue_number);
    out_.Log(reason);
    out_.Emit({.kind = JobEvent::Kind::kSuperseded, .reason = reason});
    for (const Node& node : roster_.nodes()) {
      out_.SendTo(node, Refused{reason});
      if (options_.leases && node.phase == Phase::kStarted) {
        next.hold_until = std::max(next.hold_until.value_or(now_), LeaseEnd(node.heard));
      }
    }
  }
  stacks_.Drop("the job was started again");
  highest_claimed_ = newest_generation();
  roster_ = Roster{};
  life_ = std::move(next);
  generation_ = GenerationState{};
  survey_.LoseSight(now_);
  // timeline_ stays: disks still hold states of the earlier life.
}

}  // namespace ddprun
