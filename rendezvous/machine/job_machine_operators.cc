// JobMachine: requests of operators and schedulers.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/words.h"
#include "rendezvous/machine/job_machine.h"
#include "worker/contract/job_name.h"

namespace ddprun {

void JobMachine::OnStopAsked(const StopAsked& asked) {
  const auto answer = [&](bool accepted, std::string text) {
    out_.Add(Answer{asked.ticket, accepted, std::move(text)});
  };
  if (finished_) {
    answer(false, absl::StrCat(NameOfJob(job_), " is over: ", finished_->reason));
    return;
  }
  if (!life_.spec) {
    answer(false, absl::StrCat(NameOfJob(job_), " has not begun"));
    return;
  }
  Plan plan{.stop = true, .save = asked.save, .saved = false, .reason = "stopped by an operator"};
  switch (state()) {
    case JobState::kRunning:
    case JobState::kSaving: {
      const bool saves = plan.save;
      StartPlan(std::move(plan));
      answer(true, absl::StrCat(NameOfJob(job_),
                                saves ? " stops after a checkpoint, at most " : " stops now",
                                saves ? Seconds(life_.spec->save_timeout) : "",
                                saves ? " from now" : ""));
      break;
    }
    case JobState::kStopping:
      AddToPlan(std::move(plan));
      SaveRecord();
      answer(true,
             absl::StrCat(NameOfJob(job_), " stops when the workers that still run are gone"));
      break;
    default:
      Finish({Outcome::kLeft, kExitTerminated, plan.reason});
      answer(true, absl::StrCat(NameOfJob(job_), " stopped; no worker of it ran"));
  }
}

void JobMachine::OnDrainAsked(const DrainAsked& asked) {
  const auto answer = [&](bool accepted, std::string text) {
    out_.Add(Answer{asked.ticket, accepted, std::move(text)});
  };
  std::vector<Node*> drained;
  int others = 0;  // nodes that are free now or after this generation
  for (Node& node : roster_.nodes()) {
    if (node.spec.host == asked.host || node.spec.address == asked.host) {
      drained.push_back(&node);
    } else if (!node.removed && !node.suspect && !node.second) {
      ++others;
    }
  }
  if (finished_ || drained.empty()) {
    answer(false, absl::StrCat(NameOfJob(job_), " has no node ", asked.host));
    return;
  }
  if (others < life_.spec->min_nodes) {
    answer(false, absl::StrCat("without ", asked.host, " ", NameOfJob(job_), " has ", Nodes(others),
                               " and needs at least ", life_.spec->min_nodes,
                               ": start another node first, or stop the job"));
    return;
  }
  if (generation_.plan && generation_.plan->stop) {
    answer(true, absl::StrCat(NameOfJob(job_), " stops anyway: ", generation_.plan->reason));
    return;
  }
  bool member = false;
  for (Node* node : drained) member = member || node->member();
  if (state() == JobState::kForming && member) {
    AbandonForming(absl::StrCat(asked.host, " is drained by an operator"));
    member = false;
  }
  if (!member) {
    for (Node* node : drained) Remove(*node, false);
    answer(true, absl::StrCat(asked.host, " is out of ", NameOfJob(job_), "; no worker of it ran"));
    return;
  }
  for (Node* node : drained) roster_.SetRemoved(*node);
  if (state() == JobState::kStopping) {
    SaveRecord();
    answer(true, absl::StrCat(NameOfJob(job_), " forms the next generation without ", asked.host,
                              "; the workers are being ended already"));
    return;
  }
  StartPlan({.stop = false,
             .save = true,
             .saved = false,
             .reason = absl::StrCat(asked.host, " is drained by an operator")});
  answer(true, absl::StrCat(NameOfJob(job_), " forms the next generation without ", asked.host,
                            " after a checkpoint, at most ", Seconds(life_.spec->save_timeout),
                            " from now"));
}

void JobMachine::OnStacksAsked(const StacksAsked& asked) {
  const auto refuse = [&](const std::string& why) {
    out_.Add(Answer{asked.ticket, false, absl::StrCat(NameOfJob(job_), why)});
  };
  if (finished_) return refuse(absl::StrCat(" is over: ", finished_->reason));
  if (!life_.spec) return refuse(" has not begun");
  if (state() == JobState::kStopping) {
    return refuse(absl::StrCat("'s workers are being ended: ", StateReason(View())));
  }
  if (!running()) return refuse(absl::StrCat(" has no workers now: ", StateReason(View())));
  stacks_.AskFor(asked.ticket, now_);
}

// If several nodes are preempted at once, one save serves all. The first preemption requests the
// save; a later one may change the plan from a new forming to the job's end. Not persisted, because
// agents repeat Preempted on each session.
void JobMachine::OnPreempted(Node& node, const Preempted& preempted) {
  if (node.removed) return;  // a repetition on a new session
  roster_.SetRemoved(node);
  node.why_removed = absl::StrCat("preempted: ", preempted.reason);
  // Includes nodes without contact whose lease still runs: after a restart of the rendezvous, these
  // are all nodes.
  const int others = roster_.candidates();
  Plan plan{.stop = others < life_.spec->min_nodes,
            .save = true,
            .saved = false,
            .preempted = true,
            .reason = absl::StrCat(node.spec.host, " is preempted (", preempted.reason, ")")};
  if (running() && node.member()) {
    AddToPlan(std::move(plan));
    CarryOnPlan();
  } else if (state() == JobState::kStopping) {
    AddToPlan(std::move(plan));
  } else if (running()) {  // a spare
    if (generation_.plan && plan.stop) AddToPlan(std::move(plan));
    Remove(node, false);
  } else if (plan.stop) {
    Finish(EndAsPlanned(View(), plan));
  } else {
    if (state() == JobState::kForming && node.member()) AbandonForming(plan.reason);
    Remove(node, false);
  }
}

// ---- plans ----

void JobMachine::StartPlan(Plan plan) {
  AddToPlan(std::move(plan));
  if (generation_.plan->stop || roster_.removed() > 0) SaveRecord();  // before the operator is told
  CarryOnPlan();
}

void JobMachine::AddToPlan(Plan plan) {
  if (generation_.plan) {
    generation_.plan->Add(std::move(plan));
  } else {
    generation_.plan = std::move(plan);
  }
}

void JobMachine::CarryOnPlan() {
  if (!generation_.plan->save || generation_.plan->saved) {
    StopGeneration(generation_.plan->reason);
  } else if (state() == JobState::kRunning) {
    Enter(JobState::kSaving, now_ + life_.spec->save_timeout);
    out_.Emit({.kind = JobEvent::Kind::kSaving, .reason = generation_.plan->reason});
    out_.Log(absl::StrCat("asking for a checkpoint: ", generation_.plan->reason));
    const auto save = JobOutbox::Share(Save{});
    for (Node* const node : roster_.members()) {
      if (node != nullptr) out_.SendTo(*node, save);
    }
  }
}

// Nothing had failed when the plan stopped the generation, so every worker's end counts as planned.
void JobMachine::CarryOut(const Plan& plan) {
  if (plan.stop) {
    Finish(EndAsPlanned(View(), plan));
    return;
  }
  life_.counters.AddRestart(JobCounters::kPlanned);
  RemoveMarkedNodes(plan.saved);
  out_.Emit({.kind = JobEvent::Kind::kRestarted,
             .reason = absl::StrCat(plan.for_store ? "" : "the membership changes: ", plan.reason),
             .restarts = restarts_used()});
  Gather();
  AdvanceGathering();
}

void JobMachine::RemoveMarkedNodes(bool saved) {
  std::vector<Node*> marked;
  for (Node& node : roster_.nodes()) {
    if (node.removed) marked.push_back(&node);
  }
  for (Node* const node : marked) Remove(*node, saved);
}

void JobMachine::Remove(Node& node, bool saved) {
  const std::string reason =
      absl::StrCat(node.spec.host, " was ", node.why_removed, "; the job goes on without it",
                   saved ? absl::StrCat(", from step ", *life_.checkpoint) : "");
  out_.SendTo(node, FinishedForOne(life_, {saved ? Outcome::kPreempted : Outcome::kLeft,
                                           saved ? kExitPreempted : kExitTerminated, reason}));
  out_.Emit({.kind = JobEvent::Kind::kLeft,
             .host = node.spec.host,
             .agent_id = node.agent_id,
             .reason = node.why_removed});
  out_.Log(reason);
  Erase(node);
}

}  // namespace ddprun
