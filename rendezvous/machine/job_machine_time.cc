// JobMachine: timed work.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/words.h"
#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/machine/job_machine.h"

namespace ddprun {
void JobMachine::OnTick() {
  if (finished_) return;
  LoseSilent();
  if (finished_) return;
  ReportWait();
  held_back_.Admit(now_);
  hang_judge_.Consider(state(), now_);
  stacks_.AskMore(now_);
  // Only in a Tick: at other events, answers that came in time may still wait to be handled.
  if (stacks_.late(now_)) ConcludeStacks();
  if (life_.hold_until && now_ >= *life_.hold_until) {
    life_.hold_until.reset();
    survey_.LoseSight(now_);  // until now workers of another life may have written
  }
  std::optional<TimePoint>& deadline = life_.stage.deadline;
  if (!deadline || now_ < *deadline) return;
  deadline.reset();
  switch (state()) {
    case JobState::kGathering:
      Finish(EndForLackOfNodes(View()));
      break;
    case JobState::kLastCall:
      // If LoseSilent() removed nodes, Advance() goes back to Gathering.
      if (roster_.free() >= life_.spec->min_nodes) FormWithAllStates();
      break;
    case JobState::kForming:
      LoseUnacknowledged();
      break;
    case JobState::kSaving:
      out_.Log(absl::StrCat("no checkpoint came within ", Seconds(life_.spec->save_timeout)));
      StopGeneration(generation_.plan->reason);
      break;
    case JobState::kBackoff:
      Gather();
      break;
    default:
      DDPRUN_CHECK(false, "a state without a deadline has one");
  }
}

void JobMachine::ReportWait() {
  auto& [report, interval, states_wait] = life_.gathering;
  if (!report || now_ < *report) return;
  const std::string reason = WhyItWaits(View());
  out_.Log(reason);
  const auto waiting = JobOutbox::Share(Waiting{reason});
  for (const Node& node : roster_.nodes()) {
    if (!node.member() && !node.suspect) out_.SendTo(node, waiting);
  }
  interval = std::min<Duration>(2 * interval, std::chrono::minutes(1));
  report = now_ + interval;
}

void JobMachine::LoseSilent() {
  if (!options_.leases || !life_.spec) return;
  for (Node* node = roster_.MostSilent();
       !finished_ && node != nullptr && now_ >= LeaseEnd(node->heard);
       node = roster_.MostSilent()) {
    if (running() && node->done()) {
      // Its workers are done, so the node matters only if the group forms again.
      roster_.SetSuspect(*node, true);
      roster_.EndLease(*node);
    } else {
      Lose(*node, HowLost::kSilent,
           absl::StrCat("nothing heard for ", Seconds(LeaseEnd(node->heard) - node->heard)));
    }
  }
}

void JobMachine::LoseUnacknowledged() {
  const std::string why =
      absl::StrCat("it did not prepare its ranks within ", Seconds(options_.forming_timeout));
  std::vector<AgentId> unacknowledged;
  for (const Node& node : roster_.nodes()) {
    if (node.phase == Phase::kAssigned) unacknowledged.push_back(node.agent_id);
  }
  for (const AgentId agent_id : unacknowledged) {
    if (Node* const node = roster_.Find(agent_id); node != nullptr && !finished_) {
      out_.SendTo(*node, Fenced{absl::StrCat("out of the generation: ", why)});
      Lose(*node, HowLost::kSilent, why);
    }
  }
}

std::optional<TimePoint> JobMachine::NextDeadline() {
  if (finished_ || !life_.spec) return std::nullopt;
  std::optional<TimePoint> next = life_.stage.deadline;
  const auto consider = [&next](const std::optional<TimePoint>& time) {
    if (time && (!next || *time < *next)) next = time;
  };
  if (running() && generation_.incidents.any()) consider(generation_.victim_grace);
  consider(life_.gathering.report);
  consider(life_.hold_until);
  consider(survey_.NextDeadline());
  const bool last_call = !life_.reports_checkpoints && !generation_.incidents.any();
  if (last_call && Newcomers() > 0) consider(generation_.growth);
  consider(held_back_.NextDeadline());
  consider(stacks_.NextDeadline(now_));
  if (!stacks_.for_verdict()) consider(hang_judge_.Deadline(state()));
  if (options_.leases) {
    if (const Node* node = roster_.MostSilent()) consider(LeaseEnd(node->heard));
  }
  return next;
}

// ---- stacks ----

void JobMachine::ConcludeStacks() {
  if (stacks_.concluding()) return;
  stacks_.Conclude(stacks_.for_verdict() ? hang_judge_.Question() : StackQuestion{});
}

void JobMachine::OnStacksJudged(const StacksJudged& judged) {
  const auto ended = stacks_.OnJudged(judged);
  if (!ended) return;
  const StackFindings& findings = *judged.findings;
  if (findings.culprit) hang_judge_.Decide(*findings.culprit, ended->Missing(), state(), now_);
  stacks_.Show(*ended, findings.tree);
}

}  // namespace ddprun
