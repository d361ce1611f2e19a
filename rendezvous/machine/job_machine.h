// JobMachine: forms the group of one job, generation after generation, and decides when the job
// ends.
//
// A pure state machine: no I/O, no clock, no thread. An event and the time go in, actions come out.
// Equal events at equal times give equal actions. JobLoop (rendezvous/service/job) owns it. One
// thread at a time calls it.
//
//     state       next state
//     Gathering   LastCall, Forming
//     LastCall    Forming; Gathering if nodes have left, or old workers may still run
//     Forming     Running; Gathering if a member (a node of the generation) gives up its ranks
//     Running     Succeeded, Saving, Stopping
//     Saving      Stopping, Succeeded
//     Stopping    Gathering, which is the normal restart; Backoff in a crash loop
//     Backoff     Gathering
//
// Each of these can also become Failed. LastCall: enough nodes have joined, and the job waits a few
// seconds for more. People and JSON see Stopping as "Draining". docs/internals/architecture.md has
// the diagram with every event, docs/internals/leases.md explains leases.
//
// A *life* of a job begins with its first Join, and ends when the job is started again
// (job_life.h). A job has several lives if Slurm requeues it, for example.
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
  // Short names for the events and actions of Step().
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
  // Continues a job from the record of an earlier rendezvous. Every member has one full lease to
  // come back. The lease begins at `now`, or at options.leases_from if that is later. Until the
  // lease ends, no other node gets the member's ranks, unless its workers are known to be gone.
  JobMachine(std::string job, const JobRecord& record, TimePoint now,
             JobMachineOptions options = {});
  JobMachine(const JobMachine&) = delete;
  JobMachine& operator=(const JobMachine&) = delete;

  // Handles one event and returns the actions. Never fails: an event that is not valid now is
  // dropped, or answered with Refused, Fenced, Finished or, to an operator, Answer. A message about
  // another generation is dropped without a line in the log. Exceptions: Join, Heartbeat, Leave,
  // Preempted, HeldStates and StandbysReady count in any generation, and a Stopped of any
  // generation can emit the event `fenced`.
  std::vector<Action> Step(const Event& event, TimePoint now);

  // When to call Step(Tick) next; nullopt: nothing is timed. O(1).
  std::optional<TimePoint> NextDeadline();

  JobState state() const { return life_.stage.state; }
  // The job is over, and the result was sent to every connected agent. An agent that missed the
  // result gets it when it joins again.
  bool finished() const { return finished_.has_value(); }
  // True if the job is over and this Join begins a new job of the same name.
  bool BeginsAnother(const Header& header, const Join& join);
  Generation generation() const { return generation_.number; }
  std::uint32_t requeue_number() const { return life_.requeue_number; }
  // At least one Join was accepted.
  bool begun() const { return life_.spec.has_value(); }
  bool HasHost(const std::string& host) const { return roster_.HasHost(host); }
  bool Knows(AgentId agent_id) { return roster_.Find(agent_id) != nullptr; }
  int agent_count() const { return roster_.size(); }
  // Number of agents that have not joined the finished job, so they do not know the result; 0 if
  // the number of nodes is not known.
  int awaited() const {
    return finished_ && life_.spec ? std::max(0, life_.spec->all_nodes - life_.agents_joined) : 0;
  }
  int restarts_used() const { return life_.restarts_used(); }
  JobStatus Status(TimePoint now, StatusDetail detail = StatusDetail::kAll) const;
  JobRecord Record() const;

 private:
  // kSilent: the node may come back, so the job does not end when no node is left. Also used for a
  // node that has not acknowledged its assignment. kKilled: the agent and its workers are
  // gone. kLeft: the agent has ended its workers and left.
  enum class HowLost { kSilent, kKilled, kLeft };

  // ---- messages of agents ----
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
  // Counts the failed snapshots that a node reports.
  void TakeUsage(Node& node, const NodeUsage& usage);
  // Counts the failed checkpoints that a node reports.
  void TakeFailures(const Node& node, const FailedCheckpoints& failed);

  // ---- joining: job_machine_join.cc ----
  void OnJoin(const Header& header, const Join& join);
  void OnRejoin(Node& node, const Header& header, const Join& join);
  // Repeats the newest order to a member that has come back. `here`: its agent knows this
  // generation.
  void RepeatLastOrder(Node& node, bool here);
  void OnIneligible(const Header& header, const Join& join);
  void Begin(const JobSpec& spec);
  void Welcome(const Node& added);
  // Keeps the node out of the next generation for a while, if there is a reason.
  void HoldBack(Node& added, const Join& join);
  void OnStandbysReady(Node& node);
  // Takes the run id from an agent, if the rendezvous has none.
  void TakeUpRun(const Join& join);
  void RefuseSecond(const Node& first, Node& second);
  void WarnIfArgumentsDiffer(const Node& first, const Node& added);

  // ---- leaving and loss ----
  void OnLeave(Node& node, const Leave& leave);
  void OnStreamBroken(const StreamBroken& broken);
  void OnAgentGone(const AgentGone& gone);
  // The node has no workers, and waits for the next forming.
  void Free(Node& node);
  // Free() for a member that did not start its workers in this generation.
  void FreeUnstarted(Node& node);
  // Removes the node from the job.
  void Erase(Node& node);
  // The node is lost or has left: its workers have ended, or are no longer part of the job.
  void Lose(Node& node, HowLost how, const std::string& why);
  // Remembers the loss, to tell it to agents that wait.
  void NoteLost(const std::string& host, const std::string& why);

  // ---- requests of operators and schedulers: job_machine_operators.cc ----
  void OnStopAsked(const StopAsked& asked);
  void OnDrainAsked(const DrainAsked& asked);
  void OnStacksAsked(const StacksAsked& asked);
  void OnPreempted(Node& node, const Preempted& preempted);
  // A Plan is a planned end of the generation. It is not the restore plan.
  void StartPlan(Plan plan);
  void AddToPlan(Plan plan);  // begins a plan if there is none
  void CarryOnPlan();
  void CarryOut(const Plan& plan);
  // `saved`: a checkpoint was made before.
  void RemoveMarkedNodes(bool saved);
  void Remove(Node& node, bool saved);

  // ---- timed work: job_machine_time.cc ----
  void OnTick();
  // Tells waiting agents what they wait for.
  void ReportWait();
  // Loses each node whose lease is over. Its ranks are given away later (leases.md). A node whose
  // workers are done is not lost while the generation runs.
  void LoseSilent();
  // Loses each node that has not acknowledged its assignment in time. No node has started its
  // workers yet.
  void LoseUnacknowledged();
  void ConcludeStacks();
  void OnStacksJudged(const StacksJudged& judged);

  // ---- transitions: job_machine_transitions.cc ----
  // Takes the transition whose condition holds now.
  void Advance();
  void AdvanceGathering();
  void AdvanceForming();
  void AdvanceRunning();
  // Calls OnGenerationEnded() once the generation has no member. Then none of its workers runs, so
  // its ranks may go to other nodes.
  void AdvanceStopping();
  void ConsiderGrowth();
  // Number of nodes that wait and can join the running job now.
  int Newcomers() const;
  // `deadline`: the latest end of the new state.
  void Enter(JobState next, std::optional<TimePoint> deadline = {});
  void Gather();
  // Forms the group. If a disk that has not answered may hold a newer state than the known states,
  // waits for that disk first.
  void FormWithAllStates();
  void Form();
  // Sets the restore plan of the generation that forms.
  void PlanRestore(const StateJudge& judge);
  // Gives up a generation whose workers have not started: all nodes wait for the next forming.
  void AbandonForming(const std::string& why);
  void StopGeneration(const std::string& reason);
  void OnGenerationEnded();
  // Counts this cause against its host. If the host is then in quarantine (quarantine.h), excludes
  // its nodes. False: too few nodes remain and no more can come, so the job has ended.
  bool Exclude(const RootCause& cause);
  // A rank on this host hung; "": no host is to blame. The host is excluded only if another node
  // can take its place, so this never ends the job.
  void ExcludeForHangs(const std::string& host);
  // Marks the nodes of an excluded host for removal.
  void RemoveExcluded(const std::string& host);
  // False: the job cannot continue without the host, and has ended.
  bool CanDoWithout(const Exclusion& exclusion);
  // Which ranks entered collectives that do not match; "": not known.
  std::string WhyMismatch(const WorkerExited& exit) const;
  void RecordCause();  // of the current generation, if something failed in it
  // Ends the job and tells every agent.
  void Finish(JobEnd end);
  // A worker looks for torch's store where an agent cannot serve it.
  void OnStoreElsewhere(const Node& node, const StoreElsewhere& elsewhere);
  // From the next generation on, rank 0's worker serves the store; every node is told why.
  void LeaveStoreToWorker(const std::string& why);
  // Begins another life of the whole job: agents of the old life are no longer in the job.
  void Supersede(std::uint32_t requeue_number);

  JobView View() const;
  // The newest generation that any agent was in.
  Generation newest_generation() const { return std::max(generation_.number, highest_claimed_); }
  // The end of the lease of a node that was last heard at `heard`. After a takeover this is at
  // least one lease after the end of the takeover hold, `leases_from` (leases.md).
  TimePoint LeaseEnd(TimePoint heard) const {
    return std::max(heard, options_.leases_from) + life_.spec->lease;
  }
  // True if workers that are in no record may still run.
  bool MayRunUnknown() const {
    return options_.restored && options_.leases && now_ < LeaseEnd(TimePoint::min());
  }
  // No group forms before `end`: AdvanceGathering() waits. This is not the takeover hold of
  // leases.md: during the takeover hold groups form, but no lease ends.
  void HoldUntil(TimePoint end) {
    life_.hold_until = std::max(life_.hold_until.value_or(end), end);
  }
  // The workers run, and the generation is not being stopped. (Some workers may still run in
  // kStopping.)
  bool running() const { return state() == JobState::kRunning || state() == JobState::kSaving; }
  bool gathering() const {
    return state() == JobState::kGathering || state() == JobState::kLastCall;
  }
  // Later actions, except HeartbeatAcks, wait until the record is durable (job_action::Persist).
  void SaveRecord();

  const std::string job_;
  const JobMachineOptions options_;

  JobLife life_;
  GenerationState generation_;
  // The highest generation that an agent has claimed, in all lives. The next generation gets a
  // higher number.
  Generation highest_claimed_{-1};
  Roster roster_;
  Timeline timeline_;  // of all lives
  std::optional<Finished> finished_;
  TimePoint now_;  // of the Step in progress

  // The parts of the machine. They use the members above.
  const JobNumbers numbers_{options_.seed, &job_, &life_};
  JobOutbox out_{&job_, &life_, &generation_};
  StateSurvey survey_{&numbers_, &life_, &roster_, &out_};
  HeldBackNodes held_back_{&life_, &roster_, &survey_, &out_};
  StackRequests stacks_{&options_, &numbers_, &roster_, &out_};
  HangJudge hang_judge_{{&job_, &options_, &life_, &generation_, &roster_, &stacks_, &out_}};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_MACHINE_H_
