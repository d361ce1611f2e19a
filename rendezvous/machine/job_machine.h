// JobMachine: forms the group of one job, again and again, and decides when the job is over.
//
// A pure state machine. It does no I/O, reads no clock and owns no thread: an event and the time go
// in, messages to agents come out. The same events at the same times give the same messages. Its
// owner (rendezvous/service) calls it from one thread.
//
//     Gathering ──▶ LastCall ──▶ Forming ──▶ Running ──▶ Succeeded
//      ▲  ▲  └──────────────────────▲ │       │   └─▶ Saving
//      │  └───────────────────────────┘       ▼         │
//      └── Backoff ◀───────────────────── Draining ◀────┘ ──▶ Failed
//
// docs/architecture.md has the diagram with every event, docs/leases.md what a lease is.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_JOB_MACHINE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_JOB_MACHINE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/core/job_event.h"
#include "rendezvous/core/job_status.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/stack_findings.h"
#include "rendezvous/machine/generation_state.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/job_record.h"
#include "rendezvous/machine/job_view.h"
#include "rendezvous/machine/restore_choice.h"
#include "rendezvous/machine/roster.h"
#include "rendezvous/machine/timeline.h"

namespace ddprun {

struct JobMachineOptions {
  // False: a node whose session breaks is lost at once, and silence means nothing. For a rendezvous
  // that lives and stops (Ctrl-Z) in the same process as its only agent. Else JobSpec::lease holds.
  bool leases = true;
  // An agent that does not prepare its assignment for this long is lost.
  Duration forming_timeout = std::chrono::seconds(30);
  // A worker failed because a peer did, and the peer is not known: so long its own failure is
  // waited for, before everybody is stopped.
  Duration victim_grace = std::chrono::seconds(1);
  // Agents that wait are told what for when they have waited so long; then after twice that, ...
  Duration tell_after = std::chrono::seconds(1);
  // For the stacks of all ranks: a node that has not answered by then is named and not waited for.
  Duration stacks_timeout = std::chrono::seconds(5);
  StackPace stacks_pace{};
  // The stacks at a hang go to every node, or to the first ones where this would be more.
  std::size_t hang_bytes_of_all_nodes = 64 << 20;
  int max_agents = 65536;  // of one job, spares included
  // Random, and another one for each rendezvous: the ids of runs are made of it. The same seed and
  // the same events give the same ids.
  std::uint64_t seed = 0;
};

class JobMachine {
 public:
  // ---- events ----
  struct Received {
    Header header;
    AgentMessage message;
  };
  struct StreamBroken {
    AgentId agent_id;
  };
  // Its agent was killed, and so were all of its workers.
  struct AgentGone {
    AgentId agent_id;
  };
  // An operator wants the job to end, or a node out of it; with `save` after a checkpoint.
  struct StopAsked {
    bool save = false;
    std::uint64_t ticket = 0;  // comes back in the Answer
  };
  struct DrainAsked {
    std::string host;  // every agent with this host name or address
    std::uint64_t ticket = 0;
  };
  // An operator wants to see the stacks of all ranks.
  struct StacksAsked {
    std::uint64_t ticket = 0;  // comes back in the ShowStacks, or in an Answer that refuses
  };
  // So many trees of a MergeStacks are merged. Soon, not necessarily for each.
  struct StacksMerged {
    StackRequestId request;
    std::size_t trees = 0;
  };
  struct StacksJudged {
    StackRequestId request;
    std::shared_ptr<const StackFindings> findings;  // never null
  };
  struct Tick {};
  using Event = std::variant<Received, StreamBroken, AgentGone, StopAsked, DrainAsked, StacksAsked,
                             StacksMerged, StacksJudged, Tick>;

  // ---- actions, to be performed in order ----
  // Make this durable, in place of what was there, before any later action becomes visible; a
  // HeartbeatAck need not wait for it.
  struct Persist {
    JobRecord record;
    bool operator==(const Persist&) const = default;
  };
  struct Send {
    Header header;  // header.agent_id is the addressee
    RendezvousMessage message;
    bool operator==(const Send&) const = default;
  };
  // To the operator who asked.
  struct Answer {
    std::uint64_t ticket = 0;
    bool accepted = false;
    std::string text;
    bool operator==(const Answer&) const = default;
  };
  // To the operator who asked for stacks.
  struct ShowStacks {
    std::uint64_t ticket = 0;
    EncodedStackTree tree;
    std::vector<std::string> missing;  // hosts that did not answer in time, sorted
    bool operator==(const ShowStacks&) const = default;
  };
  // What takes long in a large job, in this order (StackMerge): add an answer to those of the
  // request, which begins with the first one; say what they say, Step(StacksJudged), which ends it;
  // or forget it.
  struct MergeStacks {
    StackRequestId request;
    std::string host;
    RankRange ranks;
    std::shared_ptr<const EncodedStackTree> tree;
    bool operator==(const MergeStacks&) const = default;
  };
  struct JudgeStacks {
    StackRequestId request;
    std::shared_ptr<const StackQuestion> question;
    bool operator==(const JudgeStacks&) const = default;
  };
  struct ForgetStacks {
    StackRequestId request;
    bool operator==(const ForgetStacks&) const = default;
  };
  // For the history of the job.
  struct Happened {
    JobEvent event;
    bool operator==(const Happened&) const = default;
  };
  // Something a person may want to read in the log, with its reason.
  struct Note {
    std::string text;
    bool operator==(const Note&) const = default;
  };
  using Action = std::variant<Persist, Send, Answer, ShowStacks, MergeStacks, JudgeStacks,
                              ForgetStacks, Happened, Note>;

  JobMachine(std::string job, std::uint32_t requeue_number, JobMachineOptions options = {});
  // A job that was recorded by a rendezvous that is gone. Every member has one full lease from
  // `now` to come back; until it does nobody gets its ranks.
  JobMachine(std::string job, const JobRecord& record, TimePoint now,
             JobMachineOptions options = {});
  JobMachine(const JobMachine&) = delete;
  JobMachine& operator=(const JobMachine&) = delete;

  // Handles one event. Never fails: what does not fit is dropped or answered with Refused, and a
  // Note says why.
  std::vector<Action> Step(const Event& event, TimePoint now);

  // When to call Step(Tick) next, or nullopt while nothing is timed. O(1).
  std::optional<TimePoint> NextDeadline();

  JobState state() const { return state_; }
  // The job is over; every agent was told. One that missed it and joins again is told once more.
  bool finished() const { return finished_.has_value(); }
  // After the end: a Join with this header is for another job of the same name.
  bool BeginsAnother(const Header& header, const Join& join);
  Generation generation() const { return generation_.number; }
  std::uint32_t requeue_number() const { return life_.requeue_number; }
  // An agent has joined that was not refused.
  bool begun() const { return life_.spec.has_value(); }
  // Whether an agent has this host name or address.
  bool HasHost(const std::string& host) const;
  bool Knows(AgentId agent_id) { return roster_.Find(agent_id) != nullptr; }
  int agent_count() const { return roster_.size(); }
  // How many agents may still come to hear that the job is over, of one that knows all its nodes.
  int awaited() const {
    return finished_ && life_.spec ? std::max(0, life_.spec->all_nodes - life_.agents_joined) : 0;
  }
  int restarts_used() const { return life_.governor ? life_.governor->restarts_used() : 0; }
  JobStatus Status(TimePoint now) const;
  JobRecord Record() const;

 private:
  void OnReceived(const Received& received);
  void OnReceivedAfterTheEnd(const Received& received);
  void OnMemberMessage(Node& node, const Received& received);
  void OnJoin(const Header& header, const Join& join);
  void Begin(const JobSpec& spec);
  void Welcome(const Node& added);
  // A node that was lost soon after joining again and again waits first.
  void HoldBack(Node& node);
  // Of an agent that was in this run before, for a rendezvous that has forgotten it.
  void TakeUpRun(const Join& join);
  RunId DrawRunId() const;
  // For a request; another one than `last`.
  std::uint64_t DrawNumber(std::uint64_t last) const;
  void OnRejoin(Node& node, const Header& header, const Join& join);
  void RefuseSecond(const Node& first, Node& second);
  // The first that has told of a program in the same role, or nullptr.
  const Node* ComparableNode(const WorkerProgram& program) const;
  void WarnIfArgumentsDiffer(const Node& first, const Node& added);
  void OnIneligible(const Header& header, const Join& join);
  std::string WhyJoinIsRefused(const Join& join) const;
  std::string WhyRankIsRefused(const NodeSpec& node) const;
  std::string WhyExcluded(const std::string& host) const;
  std::vector<std::string> ExcludedHosts() const {
    return life_.quarantine ? life_.quarantine->hosts() : std::vector<std::string>();
  }
  void OnHeartbeat(Node& node, const Header& header, const Heartbeat& heartbeat);
  // Which of its processes SIGKILL did not end: it is held back until they are gone.
  void TakeStuck(Node& node, const StuckProcesses& stuck);
  // ---- hangs: job_machine_time.cc ----
  void TakeProgress(Node& node, const NodeProgress& progress);
  // For how long no rank may move, as things are now.
  Duration HangLimit() const;
  void AddProgress(JobStatus* status, TimePoint now) const;
  bool JudgesHangs() const;
  // When to look; nullopt: nothing is judged.
  std::optional<TimePoint> HangDeadline() const;
  bool KnowsEveryRank() const;
  void ConsiderHang();
  // With the stacks that were asked for, and the hosts that sent none.
  void DecideHang(const StackFindings::Culprit& found, std::vector<std::string> missing);
  std::vector<StillNode> StillNodes() const;
  void CallHang(const StackFindings::Culprit& found, const std::string& standstill,
                const std::string& next, std::vector<std::string> missing);
  // Where the ranks are, to every node.
  void SendStacks(HangStacks stacks);
  std::size_t ShownStackBytes() const;  // to one node, at most
  std::pair<bool, std::string> AfterHang(const HangVerdict& verdict, bool again);
  // To the log, and to a person on each node.
  void WarnAll(const std::string& text);
  // ---- stacks: the same file ----
  // Asks every node with workers. Takes the place of a request that is going on.
  void AskForStacks();
  void AskForStacks(const Node& node);
  // The next nodes, where it is time for them.
  void AskMoreForStacks();
  void OnStacksTaken(Node& node, const StacksTaken& taken);
  // Every node has answered, or the time is over.
  void ConcludeStacks();
  void OnStacksMerged(const StacksMerged& merged);
  void OnStacksJudged(const StacksJudged& judged);
  // Nobody is waited for any more: the generation is over.
  void DropStacks(const std::string& why);

  void OnAssignmentAck(Node& node);
  void OnWorkerExited(Node& node, const WorkerExited& exit);
  void OnCheckpointed(const Node& node, const Checkpointed& checkpointed);
  void OnCannotSave(Node& node);
  void OnPreempted(Node& node, const Preempted& preempted);
  void OnStopped(Node& node, const Stopped& stopped);
  void OnHeldStates(Node& node, const HeldStates& held);
  void EmitFence(Node& node, const Header& header, const Stopped& stopped);
  void OnLeave(Node& node, const Leave& leave);
  void OnStreamBroken(const StreamBroken& broken);
  void OnAgentGone(const AgentGone& gone);
  void OnStopAsked(const StopAsked& asked);
  void OnDrainAsked(const DrainAsked& asked);
  void OnStacksAsked(const StacksAsked& asked);
  void OnTick();
  void LoseSilent();
  void LoseUnprepared();
  void AdmitHeldBack();
  // Another life of the whole job begins: everybody of the old one is out.
  void Supersede(std::uint32_t requeue_number);

  // Takes every transition whose condition holds by now.
  void Advance();
  void AdvanceGathering();
  void AdvanceForming();
  void AdvanceRunning();
  void AdvanceStopping();
  void ConsiderGrowth();

  void Enter(JobState next);
  void Gather();
  // Now, or once no disk that has yet to answer may hold a newer state than is known.
  void FormWithAllStates();
  void Form();
  // What this node says that it holds.
  void TakeHoldings(Node& node, const Join& join);
  void TakeStates(Node& node, const std::vector<SavedState>& states);
  // Whoever looked at a disk by now may have looked too early: workers that nobody will tell of may
  // have written there last. For when a node is gone, or out of reach.
  void LoseSight();
  // Those that LoseSight() is about. O(nodes), and so once in each Step at most.
  void AskToLookAgain();
  void AskToLookAgain(Node& node);
  // It waits for the next forming.
  void Free(Node& node);
  // It is not in the job any more.
  void Erase(Node& node);
  // And which checkpoints failed on it.
  void TakeFailures(const Node& node, const FailedCheckpoints& failed);
  // Of the generation that is being formed.
  void PlanRestore(const StateJudge& judge);
  // No disk of a free node can hold a state of a later step; nullopt: that is not known.
  std::optional<std::int64_t> FurthestPossibleStep() const;
  // The newest that a free node has told of.
  std::int64_t NewestKnownStep() const;
  // Some node holds a state that is newer than what the generation began with.
  bool HasNewState() const;
  // Nobody has started: everybody waits for the next forming.
  void AbandonForming(const std::string& why);
  void StartPlan(Plan plan);
  void AddToPlan(Plan plan);  // or makes it the plan
  // Ends the job as the plan has it.
  void FinishPlan(const Plan& plan);
  // Of the newest durable state that a later job would begin with.
  std::optional<std::int64_t> DurableStep() const;
  void CarryOnPlan();
  void StopGeneration(const std::string& reason);
  void OnGenerationEnded();
  void CarryOutPlan();
  void RemoveDrained();
  void Remove(Node& node, bool saved);
  // Those that this cause has brought into quarantine are to go. False: too few remain, for good,
  // and the job has ended.
  bool Exclude(const RootCause& cause);
  // Which ranks entered collectives that do not match; "": it is not known.
  std::string WhyMismatch(const WorkerExited& exit) const;
  // A rank of this host hung; empty: no host is to blame. Left out only where another node takes
  // its place, so the job never ends for it.
  void ExcludeForHangs(const std::string& host);
  bool IsReplaceable(const std::string& host) const;
  // Its nodes are to go.
  void RemoveExcluded(const std::string& host);
  // The same of a host that is left out by now. `step`: a job could begin with it.
  bool CanDoWithout(const std::string& host, const std::string& why, int exit_code,
                    std::optional<std::int64_t> step);
  void RecordCause();  // of the current generation, if something failed in it
  // Tells every agent; the causes of the generations that have ended go with it.
  void Finish(Outcome outcome, int exit_code, std::string reason);
  enum class HowLost { kSilent, kKilled, kLeft };
  void GiveUpWaiting();
  // For those who wait for this host meanwhile.
  void NoteLost(const std::string& host, const std::string& why);
  // `node` is out: its workers are gone, or no longer ours.
  void Lose(Node& node, HowLost how, const std::string& why);

  JobView View() const;
  // That any agent has been in.
  Generation newest_generation() const { return std::max(generation_.number, highest_claimed_); }
  // A worker of a member may run.
  bool running() const { return state_ == JobState::kRunning || state_ == JobState::kSaving; }
  bool gathering() const { return state_ == JobState::kGathering || state_ == JobState::kLastCall; }
  Assignment AssignmentOf(const Node& node) const;
  // ---- who serves torch's store ----
  bool UsesAgentStore() const;
  void OnStoreElsewhere(const Node& node, const StoreElsewhere& elsewhere);
  // The next generation's store is rank 0's worker's; tells every node why.
  void LeaveStoreToWorker(const std::string& why);
  Header HeaderFor(const Node& node) const;
  void SendTo(const Node& node, RendezvousMessage message);
  void Reply(const Header& header, RendezvousMessage message);
  void SaveRecord();          // what is so far, before what is said from now on
  void Emit(JobEvent event);  // with the generation of now
  void Log(std::string text);

  // What is to happen when, unless something else happens first.
  struct Timers {
    std::optional<TimePoint> state;         // the end of the current state
    std::optional<TimePoint> victim_grace;  // for the cause of what has only victims so far
    std::optional<TimePoint> growth;        // newcomers are taken in; until then more may come
    std::optional<TimePoint> report;        // to those who wait
    std::optional<TimePoint> admission;     // the next node that is held back may come in
    std::optional<TimePoint> hang_again;    // not before that a hang is considered once more
    Duration report_interval{};
  };

  const std::string job_;
  const JobMachineOptions options_;

  JobState state_ = JobState::kGathering;
  TimePoint state_since_;
  JobLife life_;
  GenerationState generation_;
  Generation highest_claimed_{-1};  // that an agent was in, in any life: the next one is above it
  Roster roster_;
  Timers timers_;
  // There are enough nodes, and the disk of one has yet to answer.
  struct StatesWait {
    TimePoint until;
    std::optional<std::int64_t> enough;  // FurthestPossibleStep()
  };
  std::optional<StatesWait> states_wait_;
  LookId look_;                // of LoseSight(); 0: never called
  bool asks_to_look_ = false;  // AskToLookAgain() is to be called in this Step
  // Workers that are not ours may live until then: nothing is formed.
  std::optional<TimePoint> hold_until_;
  Timeline timeline_;  // of the generations that may have started, in any life
  std::optional<Finished> finished_;

  TimePoint now_;                // of the Step in progress
  std::vector<Action> actions_;  // of it
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_MACHINE_H_
