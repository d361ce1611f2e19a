// JobMachine: forms the group of one job, again and again, and decides when the job is over.
//
// A pure state machine. It does no I/O, reads no clock and owns no thread: an event and the time go
// in, messages to agents come out. The same events at the same times give the same messages. Its
// owner (rendezvous/service) calls it from one thread.
//
//     Gathering ──▶ LastCall ──▶ Forming ──▶ Running ──▶ Succeeded
//      ▲  ▲  └──────────────────────▲ │       │   └─▶ Saving
//      │  └───────────────────────────┘       ▼         │
//      └── Backoff ◀───────────────────── Stopping ◀────┘ ──▶ Failed
//
// People and JSON see Stopping as "Draining". docs/internals/architecture.md has the diagram with
// every event, docs/internals/leases.md what a lease is.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_JOB_MACHINE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_JOB_MACHINE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/job_status.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/generation_state.h"
#include "rendezvous/machine/hangs/hang_judge.h"
#include "rendezvous/machine/hangs/stack_requests.h"
#include "rendezvous/machine/job_end.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/job_record.h"
#include "rendezvous/machine/job_view.h"
#include "rendezvous/machine/nodes/held_back_nodes.h"
#include "rendezvous/machine/nodes/roster.h"
#include "rendezvous/machine/states/state_survey.h"
#include "rendezvous/machine/states/timeline.h"
#include "rendezvous/machine/step/job_action.h"
#include "rendezvous/machine/step/job_input.h"
#include "rendezvous/machine/step/job_machine_options.h"
#include "rendezvous/machine/step/job_numbers.h"
#include "rendezvous/machine/step/job_outbox.h"

namespace ddprun {

class JobMachine {
 public:
  // What goes into a step, and what comes out.
  using Received = job_input::Received;
  using StreamBroken = job_input::StreamBroken;
  using AgentGone = job_input::AgentGone;
  using StopAsked = job_input::StopAsked;
  using DrainAsked = job_input::DrainAsked;
  using StacksAsked = job_input::StacksAsked;
  using StacksMerged = job_input::StacksMerged;
  using StacksJudged = job_input::StacksJudged;
  using Tick = job_input::Tick;
  using Event = job_input::Any;
  using Persist = job_action::Persist;
  using Send = job_action::Send;
  using SendToMany = job_action::SendToMany;
  using Answer = job_action::Answer;
  using ShowStacks = job_action::ShowStacks;
  using MergeStacks = job_action::MergeStacks;
  using JudgeStacks = job_action::JudgeStacks;
  using ForgetStacks = job_action::ForgetStacks;
  using Happened = job_action::Happened;
  using Note = job_action::Note;
  using Action = job_action::Any;

  JobMachine(std::string job, std::uint32_t requeue_number, JobMachineOptions options = {});
  // A job that another rendezvous has recorded. Every member has one full lease from `now`, or from
  // options.leases_from where that is later, to come back; until it does nobody gets its ranks.
  JobMachine(std::string job, const JobRecord& record, TimePoint now,
             JobMachineOptions options = {});
  JobMachine(const JobMachine&) = delete;
  JobMachine& operator=(const JobMachine&) = delete;

  // Handles one event. Never fails: what does not fit is dropped or answered with Refused, and a
  // Note says why.
  std::vector<Action> Step(const Event& event, TimePoint now);

  // When to call Step(Tick) next, or nullopt while nothing is timed. O(1).
  std::optional<TimePoint> NextDeadline();

  JobState state() const { return life_.stage.state; }
  // The job is over; every agent was told. One that missed it and joins again is told once more.
  bool finished() const { return finished_.has_value(); }
  // After the end: a Join with this header is for another job of the same name.
  bool BeginsAnother(const Header& header, const Join& join);
  Generation generation() const { return generation_.number; }
  std::uint32_t requeue_number() const { return life_.requeue_number; }
  // An agent has joined that was not refused.
  bool begun() const { return life_.spec.has_value(); }
  bool HasHost(const std::string& host) const { return roster_.HasHost(host); }
  bool Knows(AgentId agent_id) { return roster_.Find(agent_id) != nullptr; }
  int agent_count() const { return roster_.size(); }
  // How many agents may still come to hear that the job is over, of one that knows all its nodes.
  int awaited() const {
    return finished_ && life_.spec ? std::max(0, life_.spec->all_nodes - life_.agents_joined) : 0;
  }
  int restarts_used() const { return life_.restarts_used(); }
  JobStatus Status(TimePoint now, StatusDetail detail = StatusDetail::kAll) const;
  JobRecord Record() const;

 private:
  enum class HowLost { kSilent, kKilled, kLeft };

  // ---- what agents say ----
  void OnReceived(const Received& received);
  void OnReceivedAfterTheEnd(const Received& received);
  void OnMemberMessage(Node& node, const Received& received);
  void OnHeartbeat(Node& node, const Header& header, const Heartbeat& heartbeat);
  void OnAssignmentAck(Node& node);
  void OnWorkerExited(Node& node, const WorkerExited& exit);
  void OnCheckpointed(const Node& node, const Checkpointed& checkpointed);
  void OnCannotSave(Node& node);
  void OnStopped(Node& node, const Stopped& stopped);
  void EmitFence(Node& node, const Header& header, const Stopped& stopped);
  // Which checkpoints failed on it.
  void TakeFailures(const Node& node, const FailedCheckpoints& failed);

  // ---- who joins: job_machine_join.cc ----
  void OnJoin(const Header& header, const Join& join);
  void OnRejoin(Node& node, const Header& header, const Join& join);
  void OnIneligible(const Header& header, const Join& join);
  void Begin(const JobSpec& spec);
  void Welcome(const Node& added);
  // Of an agent that was in this run before, for a rendezvous that has forgotten it.
  void TakeUpRun(const Join& join);
  void RefuseSecond(const Node& first, Node& second);
  void WarnIfArgumentsDiffer(const Node& first, const Node& added);

  // ---- who goes ----
  void OnLeave(Node& node, const Leave& leave);
  void OnStreamBroken(const StreamBroken& broken);
  void OnAgentGone(const AgentGone& gone);
  // It waits for the next forming.
  void Free(Node& node);
  // The same for one that was not in this generation when it joined.
  void FreeUnstarted(Node& node);
  // It is not in the job any more.
  void Erase(Node& node);
  // `node` is out: its workers are gone, or no longer ours.
  void Lose(Node& node, HowLost how, const std::string& why);
  // For those who wait for this host meanwhile.
  void NoteLost(const std::string& host, const std::string& why);

  // ---- what operators and schedulers ask for: job_machine_operators.cc ----
  void OnStopAsked(const StopAsked& asked);
  void OnDrainAsked(const DrainAsked& asked);
  void OnStacksAsked(const StacksAsked& asked);
  void OnPreempted(Node& node, const Preempted& preempted);
  void StartPlan(Plan plan);
  void AddToPlan(Plan plan);  // or makes it the plan
  void CarryOnPlan();
  void CarryOut(const Plan& plan);
  // `saved`: they leave a checkpoint behind.
  void RemoveMarkedNodes(bool saved);
  void Remove(Node& node, bool saved);

  // ---- what time does: job_machine_time.cc ----
  void OnTick();
  // What those who have joined wait for.
  void ReportWait();
  void LoseSilent();
  void LoseUnacknowledged();
  void ConcludeStacks();
  void OnStacksJudged(const StacksJudged& judged);

  // ---- from one state to the next: job_machine_transitions.cc ----
  // Takes every transition whose condition holds by now.
  void Advance();
  void AdvanceGathering();
  void AdvanceForming();
  void AdvanceRunning();
  void AdvanceStopping();
  void ConsiderGrowth();
  // So many of those that wait can be taken in while the job runs; 0: none, or not now.
  int Newcomers() const;
  // `deadline`: when it ends, unless something else happens first.
  void Enter(JobState next, std::optional<TimePoint> deadline = {});
  void Gather();
  // Now, or once no disk that has yet to answer may hold a newer state than is known.
  void FormWithAllStates();
  void Form();
  // Of the generation that is being formed.
  void PlanRestore(const StateJudge& judge);
  // Nobody has started: everybody waits for the next forming.
  void AbandonForming(const std::string& why);
  void StopGeneration(const std::string& reason);
  void OnGenerationEnded();
  // Those that this cause has brought into quarantine are to go. False: too few remain, for good,
  // and the job has ended.
  bool Exclude(const RootCause& cause);
  // A rank of this host hung; empty: no host is to blame. Left out only where another node takes
  // its place, so the job never ends for it.
  void ExcludeForHangs(const std::string& host);
  // Its nodes are to go.
  void RemoveExcluded(const std::string& host);
  // False: the job has ended for it.
  bool CanDoWithout(const Exclusion& exclusion);
  // Which ranks entered collectives that do not match; "": it is not known.
  std::string WhyMismatch(const WorkerExited& exit) const;
  void RecordCause();  // of the current generation, if something failed in it
  // Tells every agent; the causes of the generations that have ended go with it.
  void Finish(JobEnd end);
  // Who serves torch's store.
  void OnStoreElsewhere(const Node& node, const StoreElsewhere& elsewhere);
  // The next generation's store is rank 0's worker's; tells every node why.
  void LeaveStoreToWorker(const std::string& why);
  // Another life of the whole job begins: everybody of the old one is out.
  void Supersede(std::uint32_t requeue_number);

  JobView View() const;
  // That any agent has been in.
  Generation newest_generation() const { return std::max(generation_.number, highest_claimed_); }
  // Until then nobody gets the ranks of a node that was heard at `heard`, and is silent.
  TimePoint LeaseEnd(TimePoint heard) const {
    return std::max(heard, options_.leases_from) + life_.spec->lease;
  }
  // Nothing is formed until then.
  void HoldUntil(TimePoint end) {
    life_.hold_until = std::max(life_.hold_until.value_or(end), end);
  }
  // A worker of a member may run.
  bool running() const { return state() == JobState::kRunning || state() == JobState::kSaving; }
  bool gathering() const {
    return state() == JobState::kGathering || state() == JobState::kLastCall;
  }
  void SaveRecord();  // what is so far, before what is said from now on

  const std::string job_;
  const JobMachineOptions options_;

  JobLife life_;
  GenerationState generation_;
  Generation highest_claimed_{-1};  // that an agent was in, in any life: the next one is above it
  Roster roster_;
  Timeline timeline_;  // of the generations that may have started, in any life
  std::optional<Finished> finished_;
  TimePoint now_;  // of the Step in progress

  // Its parts. They share what is above.
  const JobNumbers numbers_{options_.seed, &job_, &life_};
  JobOutbox out_{&job_, &life_, &generation_};
  StateSurvey survey_{&numbers_, &life_, &roster_, &out_};
  HeldBackNodes held_back_{&life_, &roster_, &survey_, &out_};
  StackRequests stacks_{&options_, &numbers_, &roster_, &out_};
  HangJudge hang_judge_{{&job_, &options_, &life_, &generation_, &roster_, &stacks_, &out_}};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_MACHINE_H_
