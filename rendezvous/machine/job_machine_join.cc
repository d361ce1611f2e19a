// JobMachine: nodes that join, and nodes that come back.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/words.h"
#include "rendezvous/machine/job_machine.h"
#include "rendezvous/machine/nodes/admission.h"

namespace ddprun {
namespace {

// "": an agent may have been in this generation.
std::string WhyClaimIsRefused(Generation claimed) {
  if (claimed.value <= kMaxClaimedGeneration) return "";
  return absl::StrCat("this agent says that it was in generation ", claimed.value,
                      ", which no job can reach");
}

}  // namespace

void JobMachine::OnJoin(const Header& header, const Join& join) {
  if (Node* const known = roster_.Find(header.agent_id)) {
    OnRejoin(*known, header, join);
    return;
  }
  if (life_.spec && roster_.empty() && !WhyJobDiffers(*life_.spec, join.job).empty()) {
    // No node is left, and the job was started again with other settings.
    Supersede(life_.requeue_number);
  }
  std::string why_refused = WhyLeaseIsRefused(options_, join.job.lease);
  if (why_refused.empty()) why_refused = WhyJoinIsRefused(View(), options_.max_agents, join);
  if (why_refused.empty()) why_refused = WhyClaimIsRefused(header.generation);
  if (!why_refused.empty()) {
    out_.Reply(header, Refused{std::move(why_refused)});
    return;
  }
  if (!life_.spec) Begin(join.job);
  TakeUpRun(join);
  if (!join.why_ineligible.empty()) {
    OnIneligible(header, join);
    return;
  }
  const bool was_here = join.returning || header.generation.value >= 0;
  const bool is_unknown = was_here && generation_.number.value < 0;
  if (is_unknown && options_.leases && gathering() && now_ < LeaseEnd(life_.begun_at)) {
    // An earlier rendezvous had this job and left no record. Agents that have not come back may
    // have workers until their leases end.
    HoldUntil(LeaseEnd(life_.begun_at));
    if (state() == JobState::kLastCall) Gather();
  }
  if (is_unknown && !survey_.has_lost_sight()) survey_.LoseSight(now_);
  highest_claimed_ = std::max(highest_claimed_, header.generation);
  if (join.workers_running) {
    // Its workers are of a generation that this rendezvous does not know, or has given up.
    out_.Reply(header, Fenced{"the rendezvous does not count on this agent's workers"});
    return;
  }
  Node node;
  node.agent_id = header.agent_id;
  node.spec = join.node;
  node.offered_port = join.offered_port;
  node.program = join.program;
  if (!join.returning) node.counted_snapshots = 0;
  node.stay.since = now_;
  const Node* const other = ComparableNode(roster_, join.program);
  Node& added = roster_.Add(std::move(node), now_);
  survey_.Take(added, join);
  ++life_.agents_joined;
  out_.Emit({.kind = JobEvent::Kind::kJoined,
             .host = join.node.host,
             .agent_id = added.agent_id,
             .workers = join.node.worker_count});
  TakeFailures(added, join.failed_checkpoints);
  HoldBack(added, join);
  Welcome(added);
  survey_.AskToLookAgain(added);
  if (other != nullptr) WarnIfArgumentsDiffer(*other, added);
}

void JobMachine::HoldBack(Node& added, const Join& join) {
  held_back_.OnJoined(added, now_);
  held_back_.TakeStuck(added, join.stuck, now_);
  // If all places are taken, the node starts no standbys, because it may wait for days.
  const bool has_room = roster_.member_count() < life_.spec->max_nodes;
  const bool can_wait = life_.roles_that_stand_by.contains(join.program.role);
  if (!gathering() && has_room && can_wait && join.can_start_standbys) {
    held_back_.AwaitStandbys(added, now_);
  }
}

void JobMachine::OnStandbysReady(Node& node) {
  if (!held_back_.EndLoading(node) || gathering()) return;
  out_.SendTo(node, Waiting{WhyNewcomerWaits(View(), node)});
}

void JobMachine::TakeUpRun(const Join& join) {
  life_.has_checkpoint_folder = life_.has_checkpoint_folder || join.has_checkpoint_folder;
  if (life_.run_id == RunId{}) life_.run_id = join.run_id;
  // With --start-anew, an agent that joins late takes states of this job for states of an earlier
  // job. So it must scan the folder again.
  const bool came_late = life_.spec->start_anew && join.run_id != life_.run_id;
  if (came_late && !survey_.has_lost_sight()) survey_.LoseSight(now_);
}

void JobMachine::Begin(const JobSpec& spec) {
  life_.spec = spec;
  life_.begun_at = now_;
  life_.governor.emplace(PolicyOf(*life_.spec), numbers_.OfJob());
  life_.quarantine.emplace(life_.spec->quarantine, life_.spec->quarantine_window);
  if (MayRunUnknown()) HoldUntil(LeaseEnd(TimePoint::min()));
  Gather();
  if (life_.requeue_number > 0 || highest_claimed_.value >= 0)
    SaveRecord();  // replaces the record of an earlier life
}

// Tells a node that has joined why it waits.
void JobMachine::Welcome(const Node& added) {
  const NodeSpec& spec = added.spec;
  if (added.held_back.is_stuck()) return;  // TakeStuck() has told it
  if (added.held_back.loads) {
    const std::string why =
        "the job runs; this node is taken in when its standbys have loaded the program";
    out_.Log(absl::StrCat(spec.host, " joined with ", spec.worker_count, " workers: ", why));
    out_.SendTo(added, Waiting{why, /*start_standbys=*/true});
    return;
  }
  if (added.held_back.until) {
    const std::string why =
        absl::StrCat(spec.host, " (", spec.address, ") is admitted in ",
                     Seconds(*added.held_back.until - now_), ": ", added.held_back.why);
    out_.Log(why);
    out_.SendTo(added, Waiting{why});
    return;
  }
  if (gathering()) {  // ReportWait() tells it if the wait is long
    out_.Log(absl::StrCat(spec.host, " joined with ", spec.worker_count, " workers"));
    return;
  }
  std::string waiting = WhyNewcomerWaits(View(), added);
  out_.Log(absl::StrCat(spec.host, " joined with ", spec.worker_count, " workers: ", waiting));
  out_.SendTo(added, Waiting{std::move(waiting)});
}

// Warns `first` only once, because commands may differ between nodes for a good reason.
void JobMachine::WarnIfArgumentsDiffer(const Node& first, const Node& added) {
  const auto argument = FirstOtherArgument(first.program, added.program);
  if (!argument) return;
  const auto warn = [&](const Node& node, const Node& other) {
    const std::string text = absl::StrCat(
        "argument ", *argument, " of ", node.program.name, " is not the same on ", node.spec.host,
        " and ", other.spec.host, "; if that is not meant, start every node with the same command");
    out_.SendTo(node, Warning{text});
    out_.Log(text);
  };
  warn(added, first);
  if (!std::exchange(life_.warned_of_arguments, true)) warn(first, added);
}

// If the number of nodes is not fixed, the node can join again when it is fit.
void JobMachine::OnIneligible(const Header& header, const Join& join) {
  const std::string& host = join.node.host;
  const std::string why = absl::StrCat(host, " stays out: ", join.why_ineligible);
  out_.Log(why);
  out_.Emit({.kind = JobEvent::Kind::kLeft,
             .host = host,
             .agent_id = header.agent_id,
             .reason = join.why_ineligible});
  NoteLost(host, join.why_ineligible);
  if (life_.spec->all_nodes > 0 && life_.quarantine->Exclude(host)) {
    ++life_.agents_joined;
    generation_.absences.ineligible_host = host;
    generation_.absences.why_ineligible = absl::StrCat("it is not fit (", join.why_ineligible, ")");
    SaveRecord();
  }
  out_.Reply(header, FinishedForOne(life_, {Outcome::kLeft, kExitUnavailable, why}));
}

// `first` lost contact and is back. It keeps its rank; `second`, which asks for the same rank, must
// leave.
void JobMachine::RefuseSecond(const Node& first, Node& second) {
  const std::string why = WhyRankIsTaken(*second.spec.requested_rank, first.spec.host);
  out_.SendTo(second, Refused{why});
  out_.Emit({.kind = JobEvent::Kind::kLeft,
             .host = second.spec.host,
             .agent_id = second.agent_id,
             .reason = why});
  out_.Log(absl::StrCat(second.spec.host, " has to go: ", why));
  Erase(second);
}

// An agent has a new session. It repeats its messages, and so does the rendezvous.
void JobMachine::OnRejoin(Node& node, const Header& header, const Join& join) {
  roster_.Heard(node, now_);
  TakeUpRun(join);
  roster_.SetProgram(node, join.program);
  survey_.Take(node, join);
  if (node.suspect) {
    for (Node* const second : roster_.WaitingForRankOf(node)) RefuseSecond(node, *second);
    roster_.SetSuspect(node, false);
    generation_.incidents.ClearSuspicion(node.agent_id);
    out_.Emit(
        {.kind = JobEvent::Kind::kRejoined, .host = node.spec.host, .agent_id = node.agent_id});
    out_.Log(absl::StrCat(node.spec.host, " is back within its lease"));
  }
  TakeFailures(node, join.failed_checkpoints);
  held_back_.TakeStuck(node, join.stuck, now_);
  const bool here = header.generation == generation_.number;
  if (join.workers_running && !here) {
    out_.Reply(header, Fenced{"its workers are of a generation that is over"});
    return;
  }
  if (!node.member()) {
    if (node.held_back.loads) out_.SendTo(node, Waiting{node.held_back.why, true});
    node.offered_port = join.offered_port;
    survey_.AskToLookAgain(node);
    return;
  }
  if (header.generation > generation_.number || (!here && MayRunUnknown())) {
    // The record of this rendezvous is older than the job, or may be. So the recorded generation is
    // over.
    highest_claimed_ =
        std::max(highest_claimed_, std::min(header.generation, Generation{kMaxClaimedGeneration}));
    Free(node);
    node.offered_port = join.offered_port;
    if (running()) {
      generation_.incidents.AddNode(
          node.agent_id, RootCause::Kind::kNodeLost, node.spec.host, node.rank,
          "it had continued to a later generation than the rendezvous has recorded");
    }
    return;
  }
  if (!here && state() != JobState::kStopping) {  // the agent does not know this generation
    roster_.SetPhase(node, Phase::kAssigned);
    out_.SendTo(node, AssignmentOf(View(), node));
    return;
  }
  const bool trains = here && join.workers_running && state() == JobState::kRunning;
  if (trains && options_.one_of_several()) {
    // The agent already has Start. It sends a heartbeat with such a Join (Supervisor::Introduce),
    // and the answer to this heartbeat is enough. That saves one message for each agent in a
    // takeover. The agent sends no AssignmentAck. So the node may still be in kAssigned: another
    // leader may have started its workers after this one had assigned ranks.
    if (node.phase == Phase::kAssigned) roster_.SetPhase(node, Phase::kStarted);
    stacks_.AskAgain(node);
    return;
  }
  RepeatLastOrder(node, here);
}

void JobMachine::RepeatLastOrder(Node& node, bool here) {
  switch (state()) {
    case JobState::kRunning:
    case JobState::kSaving:
      out_.SendTo(node, Start{});
      if (state() == JobState::kSaving) out_.SendTo(node, Save{});
      stacks_.AskAgain(node);
      break;
    case JobState::kStopping:
      if (here) {
        out_.SendTo(node, Stop{StateReason(View()), survey_.look()});
      } else {
        FreeUnstarted(node);
      }
      break;
    default:  // Forming: the agent repeats AssignmentAck
      break;
  }
}

}  // namespace ddprun
