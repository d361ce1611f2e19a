// Drives a JobMachine with a fake clock and named agents. Records its messages and answers, one
// line each; HeartbeatAcks only after ShowAcks(). Of the events, only checkpoint_failed has a line;
// TakeEvents() returns them all.
#ifndef DDPRUN_TESTS_UNIT_RENDEZVOUS_MACHINE_JOB_MACHINE_DRIVER_H_
#define DDPRUN_TESTS_UNIT_RENDEZVOUS_MACHINE_JOB_MACHINE_DRIVER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/machine/job_machine.h"
#include "rendezvous/stacks/stack_tree.h"
#include "tests/support/one_by_one.h"
#include "tests/support/stacks_at_once.h"
#include "worker/contract/overloaded.h"

namespace ddprun {

class JobMachineDriver {
 public:
  explicit JobMachineDriver(JobSpec spec, JobMachineOptions options = {},
                            std::uint32_t requeue_number = 0, std::string name = "job")
      : spec_(spec),
        options_(options),
        requeue_number_(requeue_number),
        name_(std::move(name)),
        machine_(std::make_unique<JobMachine>(name_, requeue_number, options)) {}

  static JobSpec Spec(int min, int max, int max_restarts = 0) {
    JobSpec spec;
    spec.min_nodes = min;
    spec.max_nodes = max;
    spec.max_restarts = max_restarts;
    spec.join_timeout = std::chrono::seconds(600);
    spec.last_call = std::chrono::seconds(5);
    return spec;
  }

  // Agents are named by one letter; 'a' has agent_id 'a', host "a" and address "10.0.0.a".
  void Join(char agent) { Join(agent, workers_); }
  // Joins as an agent that was in `generation` of the run `run_id`.
  void JoinWithRun(char agent, RunId run_id, int generation) {
    ddprun::Join join{spec_, NodeOf(agent, workers_), NextPort()};
    join.returning = true;
    join.run_id = run_id;
    Receive(agent, std::move(join), Generation{generation});
  }
  void Join(char agent, int workers) {
    Receive(agent, ddprun::Join{spec_, NodeOf(agent, workers), NextPort()});
  }
  void JoinWith(char agent, WorkerProgram program) {
    ddprun::Join join{spec_, NodeOf(agent, workers_), NextPort()};
    join.program = std::move(program);
    Receive(agent, std::move(join));
  }
  void JoinAndStartStandbys(char agent) {
    ddprun::Join join{spec_, NodeOf(agent, workers_), NextPort()};
    join.can_start_standbys = true;
    Receive(agent, std::move(join));
  }
  // For agents that join from now on; 2 unless set.
  void set_workers(int workers) { workers_ = workers; }
  void Prepare(char agent) { Receive(agent, AssignmentAck{}); }
  void Drain(char agent, std::optional<std::int64_t> last_step = {}) {
    Receive(agent, Stopped{NextPort(), last_step});
  }
  // A heartbeat of an agent with `count` failed checkpoints in its life, the last one of `step`.
  void BeatWithFailures(char agent, std::int64_t count, std::int64_t step = 5) {
    Heartbeat heartbeat;
    heartbeat.failed_checkpoints = {count, step, "disk full"};
    Receive(agent, heartbeat);
  }
  void Beat(char agent) { Receive(agent, Heartbeat{}); }
  void BeatOfOneThatCanStandBy(char agent) {
    Heartbeat heartbeat;
    heartbeat.can_stand_by = true;
    Receive(agent, heartbeat);
  }
  // Joins on a new session; `generation`: the generation that the agent is in.
  void Rejoin(char agent, int generation, bool workers_running) {
    ddprun::Join join{spec_, NodeOf(agent, workers_), NextPort(), workers_running};
    Receive(agent, join, Generation{generation});
  }
  // A Join with another requeue number.
  void JoinOfEpoch(char agent, std::uint32_t requeue_number) {
    const std::uint32_t ours = std::exchange(requeue_number_, requeue_number);
    Receive(agent, ddprun::Join{spec_, NodeOf(agent, workers_), NextPort()}, Generation{-1});
    requeue_number_ = ours;
  }
  void BeatOfEpoch(char agent, std::uint32_t requeue_number) {
    const std::uint32_t ours = std::exchange(requeue_number_, requeue_number);
    Beat(agent);
    requeue_number_ = ours;
  }
  void Checkpoint(char agent, std::int64_t step) { Receive(agent, Checkpointed{step}); }
  void AskStop(bool save) { Step(JobMachine::StopAsked{save, 1}); }
  void AskDrain(const std::string& host) { Step(JobMachine::DrainAsked{host, 1}); }
  void Exit(char agent, int rank, int local_rank, ExitStatus status, std::string kind = "") {
    WorkerExited exit;
    exit.rank = Rank{rank};
    exit.local_rank = LocalRank{local_rank};
    exit.pid = 100 + rank;
    exit.status = status;
    exit.error_kind = kind;
    Receive(agent, exit);
  }
  // From now on the test answers TakeStacks. Before, the driver answers at once.
  void HoldStacks() { answers_stacks_ = false; }
  // Answers the newest request: the main thread of each rank is in the function given for it.
  void SendStacks(char agent, const std::map<int, std::string>& functions) {
    AnswerStacks(agent, last_request(), functions);
  }
  void AnswerStacks(char agent, StackRequestId request,
                    const std::map<int, std::string>& functions = {}) {
    StackTree tree;
    for (const auto& [rank, function] : functions) {
      tree.Add(static_cast<std::uint32_t>(rank), ThreadKind::kMain,
               {{"main", "m.cc", 1, "m"}, {function, "f.cc", 2, "m"}});
    }
    Receive(agent, StacksTaken{request, std::make_shared<EncodedStackTree>(tree.Encode())});
  }
  // From now on the test reports merged and judged stacks. Before, the driver reports them at once.
  void HoldFindings() { tells_findings_ = false; }
  void TellFindings() {
    for (const JobMachine::Event& event : std::exchange(findings_, {})) Step(event);
  }
  void TellFindingsOf(StackRequestId request) {
    Step(JobMachine::StacksMerged{request, 1});
    Step(JobMachine::StacksJudged{request, std::make_shared<StackFindings>()});
  }
  StackRequestId last_request() const {
    return asked_.empty() ? StackRequestId{} : asked_.back().second;
  }
  void AskStacks(std::uint64_t ticket = 1) { Step(JobMachine::StacksAsked{ticket}); }
  void Leave(char agent) { Receive(agent, ddprun::Leave{"SIGTERM", 143}); }
  void Break(char agent) { Step(JobMachine::StreamBroken{AgentId{Number(agent)}}); }
  void Gone(char agent) { Step(JobMachine::AgentGone{AgentId{Number(agent)}}); }
  void Advance(Duration by) {
    now_ += by;
    Step(JobMachine::Tick{});
  }
  void Receive(char agent, AgentMessage message, std::optional<Generation> generation = {}) {
    JobMachine::Event event;
    auto& received = std::get<JobMachine::Received>(event);
    received.header = {name_, requeue_number_, generation.value_or(machine_->generation()),
                       AgentId{Number(agent)}};
    received.message = std::move(message);
    Step(event);
  }

  void Step(const JobMachine::Event& event) {
    for (const JobMachine::Action& action : OneByOne(machine_->Step(event, now_))) {
      std::visit(
          Overloaded{
              [&](const JobMachine::Send& send) {
                if (!std::holds_alternative<HeartbeatAck>(send.message) || acks_) {
                  log_.push_back(Describe(send));
                }
                if (const auto* end = std::get_if<Finished>(&send.message)) finished_ = *end;
                if (const auto* take = std::get_if<TakeStacks>(&send.message)) {
                  asked_.emplace_back(static_cast<char>(send.header.agent_id.value), take->request);
                }
                if (const auto* assignment = std::get_if<Assignment>(&send.message)) {
                  assignments_.push_back(*assignment);
                }
              },
              [](const JobMachine::SendToMany&) {},  // replaced by OneByOne()
              [&](const JobMachine::Persist& persist) { record_ = *persist.record; },
              [&](const JobMachine::Answer& answer) {
                log_.push_back(absl::StrCat(answer.accepted ? "yes: " : "no: ", answer.text));
              },
              [&](const JobMachine::ShowStacks& shown) {
                log_.push_back(absl::StrCat("stacks: ", DescribeTree(shown.tree),
                                            shown.missing.empty() ? "" : ", not of ",
                                            absl::StrJoin(shown.missing, ",")));
              },
              [&](const JobMachine::MergeStacks& merge) {
                findings_.push_back(stacks_.Perform(merge));
              },
              [&](const JobMachine::JudgeStacks& judge) {
                findings_.push_back(stacks_.Perform(judge));
              },
              [&](const JobMachine::ForgetStacks& forget) { stacks_.Perform(forget); },
              [&](const JobMachine::Happened& happened) {
                events_.push_back(happened.event);
                if (happened.event.kind == JobEvent::Kind::kCheckpointFailed) {
                  log_.push_back(absl::StrCat("checkpoint_failed on ", happened.event.host, ", ",
                                              happened.event.failed_checkpoints, " in all"));
                }
              },
              [&](const JobMachine::Note& note) { notes_.push_back(note.text); },
          },
          action);
    }
    if (tells_findings_) TellFindings();
    if (!answers_stacks_) return;
    for (const auto& [agent, request] : std::exchange(asked_, {})) {
      AnswerStacks(agent, request);
    }
  }

  // Two agents with two workers each, running generation 0.
  void RunTwoNodes() {
    Join('a');
    Join('b');
    Prepare('a');
    Prepare('b');
    Clear();
  }

  // The lines since the last call, oldest first.
  std::vector<std::string> Take() { return std::exchange(log_, {}); }
  std::string TakeText() { return absl::StrJoin(Take(), "; "); }
  void Clear() { log_.clear(); }
  std::vector<JobEvent> TakeEvents() { return std::exchange(events_, {}); }
  void ShowAcks() { acks_ = true; }
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }

  const Finished& last_finished() const { return finished_; }
  std::vector<Assignment> TakeAssignments() { return std::exchange(assignments_, {}); }
  JobMachine& machine() { return *machine_; }
  const std::optional<JobRecord>& record() const { return record_; }
  // The daemon is killed, and after `away` another one reads its journal. All sessions are broken.
  void RestartDaemon(Duration away) {
    now_ += away;
    machine_ = std::make_unique<JobMachine>(name_, record_.value(), now_, options_);
  }
  // Another daemon takes over, while its predecessor may acknowledge heartbeats for `hold`.
  void TakeOver(Duration hold) {
    options_.leases_from = now_ + hold;
    RestartDaemon({});
  }
  // The same, after etcd was restored from a snapshot. `emptied`: etcd has no record of the job.
  void TakeOverRestored(Duration hold, bool emptied) {
    options_.restored = true;
    TakeOver(hold);
    if (emptied) machine_ = std::make_unique<JobMachine>(name_, 0, options_);
  }
  TimePoint now() const { return now_; }
  const JobSpec& spec() const { return spec_; }

 private:
  static std::uint64_t Number(char agent) { return static_cast<unsigned char>(agent); }
  static NodeSpec NodeOf(char agent, int workers) {
    const std::string name(1, agent);
    return {name, "10.0.0." + name, workers};
  }
  int NextPort() { return ++port_; }

  // The ranks in the tree.
  static std::string DescribeTree(const EncodedStackTree& tree) {
    const auto decoded = StackTree::Decode(tree);
    return decoded.ok() ? absl::StrCat("[", decoded->Ranks().ToString(), "]") : "malformed";
  }

  // " rank 3", " early rank 3", " lost b", " left b" or " hung REASON", followed by the ranks of
  // the victims.
  static std::string Cause(const RootCause& cause) {
    std::string text;
    switch (cause.kind) {
      case RootCause::Kind::kWorkerFailed:
        text = absl::StrCat(" rank ", cause.failure.exit.rank.value);
        break;
      case RootCause::Kind::kWorkerLeftEarly:
        text = absl::StrCat(" early rank ", cause.failure.exit.rank.value);
        break;
      case RootCause::Kind::kNodeLost:
        text = " lost " + cause.failure.host;
        break;
      case RootCause::Kind::kNodeLeft:
        text = " left " + cause.failure.host;
        break;
      case RootCause::Kind::kHung:
        text = " hung " + cause.reason;
        break;
    }
    for (const WorkerFailure& victim : cause.victims) {
      absl::StrAppend(&text, " victim ", victim.exit.rank.value);
    }
    return text;
  }

  static std::string Describe(const JobMachine::Send& send) {
    const std::string to(1, static_cast<char>(send.header.agent_id.value));
    const std::string prefix = absl::StrCat(to, "<-g", send.header.generation.value, " ");
    return prefix +
           std::visit(
               Overloaded{
                   [](const Assignment& a) {
                     return absl::StrCat("Assignment node ", a.node_rank.value, "/", a.node_count,
                                         " first ", a.first_rank.value, " world ", a.world_size,
                                         " ", a.master_addr, ":", a.master_port, " restart ",
                                         a.restart_count, "/", a.max_restarts,
                                         a.restore ? "; " + ddprun::Describe(*a.restore) : "");
                   },
                   [](const Waiting& waiting) {
                     return std::string(waiting.start_standbys ? "Waiting, start standbys"
                                                               : "Waiting");
                   },
                   [](const HeartbeatAck& ack) { return absl::StrCat("Ack ", ack.sent_at); },
                   [](const Start&) { return std::string("Start"); },
                   [](const Save&) { return std::string("Save"); },
                   [](const Fenced& f) { return absl::StrCat("Fenced: ", f.reason); },
                   [](const Stop&) { return std::string("Stop"); },
                   [](const Finished& f) {
                     return absl::StrCat("Finished ", f.exit_code,
                                         f.root_cause ? Cause(*f.root_cause) : "");
                   },
                   [](const Refused& r) { return absl::StrCat("Refused: ", r.reason); },
                   [](const Warning& w) { return absl::StrCat("Warning: ", w.text); },
                   [](const LookAgain&) { return std::string("LookAgain"); },
                   [](const TakeStacks&) { return std::string("TakeStacks"); },
                   [](const LogOrder&) { return std::string("LogOrder"); },
                   [](const HangReported& hang) {
                     const HangStacks& stacks = *hang.stacks;
                     return absl::StrCat("HangStacks ", DescribeTree(*stacks.tree), ": ",
                                         absl::StrJoin(stacks.verdict, " | "), " | ", stacks.next);
                   },
               },
               send.message);
  }

  JobSpec spec_;
  JobMachineOptions options_;
  std::uint32_t requeue_number_ = 0;
  std::string name_;
  std::unique_ptr<JobMachine> machine_;
  TimePoint now_{std::chrono::hours(1)};
  int port_ = 1000;
  int workers_ = 2;
  std::vector<std::string> log_;
  std::vector<std::string> notes_;
  std::vector<JobEvent> events_;
  bool acks_ = false;
  std::optional<JobRecord> record_;
  Finished finished_;
  std::vector<Assignment> assignments_;
  bool answers_stacks_ = true;
  StacksAtOnce stacks_;
  bool tells_findings_ = true;
  std::vector<JobMachine::Event> findings_;  // findings not reported yet
  // Requests for stacks that are not answered yet, or that the test answers.
  std::vector<std::pair<char, StackRequestId>> asked_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_RENDEZVOUS_MACHINE_JOB_MACHINE_DRIVER_H_
