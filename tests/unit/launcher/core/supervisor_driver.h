// Drives a Supervisor with a fake clock and fake workers, and records its actions, one line each.
// These have no line: heartbeats without news (heartbeats()), fences (fence()), notes
// (TakeNotes()), the beginnings and ends of generations (TakeMarks()), and what the driver answers
// itself (AnswerNothing()). Workers get pid 100 + local rank at once, except after HoldSpawns().
#ifndef DDPRUN_TESTS_UNIT_CORE_SUPERVISOR_DRIVER_H_
#define DDPRUN_TESTS_UNIT_CORE_SUPERVISOR_DRIVER_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/core/supervisor.h"
#include "worker/contract/overloaded.h"

namespace ddprun {

class SupervisorDriver {
 public:
  explicit SupervisorDriver(SupervisorOptions options = Options()) : supervisor_(options) {
    Step(Supervisor::AgentStarted{});
    Open();
  }

  static SupervisorOptions Options() {
    SupervisorOptions options;
    options.job = "job";
    options.agent_id = AgentId{7};
    options.spec.min_nodes = options.spec.max_nodes = 2;
    options.node = {"b", "10.0.0.b", 2};
    options.spec.lease = std::chrono::seconds(30);  // longer than the graces; fenced after 25 s
    options.stop_grace = std::chrono::seconds(10);
    options.kill_grace = std::chrono::seconds(2);
    return options;
  }
  // The options of an agent whose rendezvous is in the same process.
  static SupervisorOptions WithoutLeases() {
    SupervisorOptions options = Options();
    options.leases = false;
    return options;
  }

  // Messages from the rendezvous.
  void Assign(int generation, int first_rank = 2, bool agent_store = false) {
    Assignment assignment;
    assignment.agent_store = agent_store;
    assignment.node_rank = NodeRank{1};
    assignment.node_count = 2;
    assignment.first_rank = Rank{first_rank};
    assignment.world_size = 4;
    assignment.master_addr = "10.0.0.a";
    assignment.master_port = 1001;
    Receive(generation, assignment);
  }
  void Start(int generation) { Receive(generation, ddprun::Start{}); }
  void Stop(int generation) { Receive(generation, ddprun::Stop{"a peer failed"}); }
  void Finish(Outcome outcome, int code) {
    Receive(supervisor_.header().generation.value, Finished{outcome, code, "because", 0, {}, {}});
  }
  void Refuse() { Receive(supervisor_.header().generation.value, Refused{"not you"}); }
  void Receive(int generation, RendezvousMessage message) {
    Receive(Header{"job", 0, Generation{generation}, AgentId{7}, term_}, std::move(message));
  }
  // The term of all messages from now on.
  void set_term(const Term& term) { term_ = term; }
  void Receive(const Header& header, RendezvousMessage message) {
    Step(Supervisor::Event(Supervisor::Received{header, std::move(message)}));
  }
  void Open() { Step(Supervisor::SessionOpened{}); }
  void Lose() { Step(Supervisor::SessionLost{"lost the rendezvous", false, now_}); }
  // An attempt to connect that began `ago` was refused.
  void BeRefused(Duration ago = {}) {
    Step(Supervisor::SessionLost{"connection refused", true, now_ - ago});
  }
  // Answers the newest heartbeat.
  void Acknowledge() { Acknowledge(heartbeats_.back().sent_at); }
  void Acknowledge(std::int64_t sent_at) {
    Receive(supervisor_.header().generation.value, HeartbeatAck{sent_at});
  }

  // Events of this node.
  void End(int local_rank, ExitStatus status = {}) {
    Step(Supervisor::WorkerEnded{LocalRank{local_rank}, status, {"last words"}, kWall, false});
  }
  void FailToSave(int local_rank, std::int64_t step, std::int64_t failures,
                  const std::string& reason = "disk full") {
    Step(Supervisor::CheckpointFailureReported{LocalRank{local_rank}, step, failures, reason});
  }
  void Signal(int signo) { Step(Supervisor::SignalReceived{signo}); }
  void Advance(Duration by) {
    now_ += by;
    Step(Supervisor::Tick{});
  }
  // Time passes while the agent does not run: it is stopped, or gets no CPU.
  void Sleep(Duration by) { now_ += by; }
  // Time passes, and the Supervisor is called at each of its deadlines. With `answered` every
  // heartbeat is acknowledged at once.
  void Live(Duration by, bool answered) {
    const TimePoint end = now_ + by;
    while (!supervisor_.ended()) {
      const auto next = supervisor_.NextDeadline();
      if (!next || *next > end) break;
      now_ = std::max(now_, *next);
      const std::size_t before = heartbeats_.size();
      Step(Supervisor::Tick{});
      if (answered && heartbeats_.size() > before) Acknowledge();
    }
    now_ = end;
  }
  // Performs the actions one by one, including follow-ups of an action.
  void Step(const Supervisor::Event& event) {
    supervisor_.Step(event, now_);
    if (performing_) return;
    performing_ = true;
    while (const auto action = supervisor_.NextAction(now_)) Perform(*action);
    performing_ = false;
  }
  // From now on ClearNode, ScanStates, OfferPort and EndStandbys are logged, and the test answers
  // them. Before, the driver answers at once and does not log them.
  void AnswerNothing() { answers_ = Answers::kLogged; }
  static constexpr int kPort = 4321;

  // The stuck processes that the agent finds from now on when it clears the node.
  void Stick(std::vector<StuckProcess> stuck) { stuck_ = std::move(stuck); }
  // This process is gone, and no other process is stuck.
  void Unstick(int pid) {
    stuck_.clear();
    Step(Supervisor::StuckProcessEnded{pid});
  }

  // Whether the last ClearNode said that workers may still be exiting.
  bool cleared_while_exiting() const { return cleared_while_exiting_; }

  // From now on the agent answers OpenStore only by OpenedStore() or StoreFails().
  void HoldStores() { hold_stores_ = true; }
  void OpenedStore(int generation) { Step(Supervisor::StoreOpened{Generation{generation}}); }
  void StoreFails(int generation) {
    Step(Supervisor::StoreFailed{Generation{generation}, "MASTER_PORT 1001 is taken"});
  }

  // From now on the command cannot be executed for this local rank.
  void FailSpawnOf(int local_rank) { unspawnable_ = local_rank; }

  // The disk does not answer until Thaw().
  void Freeze() { frozen_ = true; }
  void Thaw() {
    frozen_ = false;
    for (const Supervisor::Event& event : std::exchange(of_the_disk_, {})) Step(event);
  }
  // From now on the folder of this local rank cannot be made.
  void FailFolderOf(int local_rank) { no_folder_ = local_rank; }
  void LeaveErrorFile(std::string text) { error_file_ = std::move(text); }

  // From now on each start of a worker lasts until the test reports its result.
  void HoldSpawns() { hold_spawns_ = true; }
  void Spawned(int local_rank) {
    Step(Supervisor::WorkerSpawned{LocalRank{local_rank}, 100 + local_rank});
  }
  void SpawnFails(int local_rank) {
    Step(Supervisor::SpawnFailed{LocalRank{local_rank}, 127, "./trian: no such file", true});
  }

  // The time that each worker takes to start.
  void SpawnSlowly(Duration each) { spawn_time_ = each; }

  void Run(int generation = 0) {
    Assign(generation);
    Start(generation);
    log_.clear();
  }

  std::vector<std::string> Take() { return std::exchange(log_, {}); }
  std::string TakeText() { return absl::StrJoin(Take(), "; "); }
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }
  // "all run" and "ended", each with the number of log lines before it.
  std::vector<std::string> TakeMarks() { return std::exchange(marks_, {}); }
  const Supervisor& supervisor() const { return supervisor_; }
  const WorkerExited& last_exit() const { return last_exit_; }
  const Verdict& verdict() const { return verdict_; }
  // The generation whose checkpoint folder must be released, or −1.
  int released() const { return claim_ ? claim_->generation.value : -1; }
  const Stopped& last_stopped() const { return last_drained_; }
  const Join& last_join() const { return last_join_; }
  const std::vector<Heartbeat>& heartbeats() const { return heartbeats_; }
  bool last_had_progress() const { return had_progress_; }  // whether the newest heartbeat had
  const std::optional<TimePoint>& fence() const { return fence_; }
  TimePoint now() const { return now_; }

 private:
  static constexpr std::int64_t kWall = 1'700'000'000'000;  // when workers end, by the wall clock

  void Record(const Supervisor::SendHeartbeat& send) {
    const Heartbeat& heartbeat = send.heartbeat;
    heartbeats_.push_back(heartbeat);
    had_progress_ = send.with_progress;
    const bool news = heartbeat.failed_checkpoints.count > 0 ||
                      heartbeat.stuck.report > std::exchange(told_, heartbeat.stuck.report);
    if (news) log_.push_back(Describe({send.header, heartbeat}));
  }

  void Mark(const char* what) { marks_.push_back(absl::StrCat(what, " after ", log_.size())); }

  void Open(const Supervisor::OpenStore& open) {
    log_.push_back(absl::StrCat("open store g", open.generation.value, " at ", open.master_addr,
                                ":", open.port, " for ", open.world_size));
    if (!hold_stores_) OpenedStore(open.generation.value);
  }

  void Perform(const Supervisor::Action& action) {
    std::visit(
        Overloaded{
            [&](const Supervisor::Send& send) { log_.push_back(Describe(send)); },
            [&](const Supervisor::SendHeartbeat& send) { Record(send); },
            [&](const Supervisor::ClearNode& clear) {
              cleared_while_exiting_ = clear.may_be_exiting;
              Answer("clear", Supervisor::NodeCleared{stuck_});
            },
            [&](const Supervisor::ScanStates&) { Answer("scan", Supervisor::StatesFound{}); },
            [&](const Supervisor::OfferPort& offer) {
              Answer(offer.workers_running ? "offer a port, running" : "offer a port",
                     Supervisor::PortOffered{kPort});
            },
            [&](const Supervisor::OpenStore& open) { Open(open); },
            [&](const Supervisor::CloseStore&) { log_.push_back("close store"); },
            [&](const Supervisor::StartStandbys&) { log_.push_back("start standbys"); },
            [&](const Supervisor::EndStandbys&) {
              if (answers_ == Answers::kLogged) log_.push_back("end standbys");
            },
            [&](const Supervisor::PrepareFolders& prepare) { Prepare(prepare); },
            [&](const Supervisor::SpawnWorkers& spawn) { Spawn(spawn); },
            [&](const Supervisor::AllWorkersRun&) { Mark("all run"); },
            [&](const Supervisor::GenerationEnded&) { Mark("ended"); },
            [&](const Supervisor::ReadErrorFile& read) { Read(read); },
            [&](const Supervisor::SignalWorkers& signal) {
              log_.push_back(absl::StrCat(
                  SignalName(signal.signo), " to ",
                  absl::StrJoin(signal.local_ranks, ",", [](std::string* out, LocalRank r) {
                    absl::StrAppend(out, r.value);
                  })));
            },
            [&](const Supervisor::AskWorkersToSave& ask) {
              log_.push_back(absl::StrCat("ask ", ask.local_ranks.size(), " to save"));
            },
            [&](const Supervisor::AskWorkersToLeave& ask) {
              log_.push_back(absl::StrCat(
                  "ask to leave: ",
                  absl::StrJoin(ask.local_ranks, ",", [](std::string* out, LocalRank r) {
                    absl::StrAppend(out, r.value);
                  })));
            },
            [&](const Supervisor::TakeWorkerStacks& take) {
              log_.push_back(absl::StrCat(
                  "take stacks of ",
                  absl::StrJoin(
                      take.workers, ",",
                      [](std::string* out, const Supervisor::TakeWorkerStacks::Worker& w) {
                        absl::StrAppend(out, w.rank.value, " (pid ", w.pid, ")");
                      })));
            },
            [&](const Supervisor::ShowHangStacks&) { log_.push_back("show the stacks of a hang"); },
            [&](const Supervisor::SetFence& fence) { fence_ = fence.at; },
            [&](const Supervisor::Note& note) { notes_.push_back(note.text); },
            [&](const Supervisor::Exit& exit) {
              log_.push_back(absl::StrCat("Exit ", exit.verdict.exit_code, " ",
                                          ToString(exit.verdict.outcome)));
              claim_ = exit.claim;
              verdict_ = exit.verdict;
            },
        },
        action);
  }

  enum class Answers { kAtOnce, kLogged };
  void Answer(const char* asked, const Supervisor::Event& event) {
    answers_ == Answers::kAtOnce ? Step(event) : log_.push_back(asked);
  }

  void Prepare(const Supervisor::PrepareFolders& prepare) {
    const bool failed = no_folder_ >= 0;
    OfTheDisk(Supervisor::FoldersReady{prepare.generation, LocalRank{failed ? no_folder_ : 0},
                                       failed ? "cannot make the folder f" : ""});
  }
  void Read(const Supervisor::ReadErrorFile& read) {
    OfTheDisk(Supervisor::ErrorFileRead{read.generation, read.local_rank, error_file_});
  }
  void OfTheDisk(Supervisor::Event event) {
    frozen_ ? of_the_disk_.push_back(std::move(event)) : Step(event);
  }

  void Spawn(const Supervisor::SpawnWorkers& spawn) {
    log_.push_back(absl::StrCat("Spawn g", spawn.generation.value));
    for (int i = 0; i < Options().node.worker_count && !hold_spawns_; ++i) {
      now_ += spawn_time_;
      i == unspawnable_ ? SpawnFails(i) : Spawned(i);
    }
  }

  static std::string Failed(const FailedCheckpoints& failed) {
    return failed.count == 0 ? "" : absl::StrCat(", ", failed.count, " failed");
  }

  std::string Stuck(const StuckProcesses& stuck) {
    told_ = stuck.report;
    if (stuck.report == 0) return "";
    if (stuck.processes.empty()) return ", nothing stuck";
    return absl::StrCat(
        ", stuck ",
        absl::StrJoin(stuck.processes, ",", [](std::string* out, const StuckProcess& process) {
          absl::StrAppend(out, process.pid);
        }));
  }

  static std::string Look(LookId look) {
    return look == LookId{} ? "" : absl::StrCat(", look ", look.value);
  }

  std::string Describe(const Supervisor::Send& send) {
    return absl::StrCat(
        "g", send.header.generation.value, "-> ",
        std::visit(
            Overloaded{
                [&](const Join& join) {
                  last_join_ = join;
                  return absl::StrCat(join.workers_running ? "Join, running" : "Join",
                                      Failed(join.failed_checkpoints), Look(join.look),
                                      join.states_pending ? ", states pending" : "",
                                      Stuck(join.stuck));
                },
                [&](const Heartbeat& heartbeat) {
                  return absl::StrCat("Heartbeat", Failed(heartbeat.failed_checkpoints),
                                      Stuck(heartbeat.stuck));
                },
                [](const Checkpointed& c) { return absl::StrCat("Checkpointed ", c.step); },
                [](const CheckpointDamaged& damaged) {
                  return absl::StrCat("CheckpointDamaged ", damaged.step);
                },
                [](const CannotSave&) { return std::string("CannotSave"); },
                [](const Preempted&) { return std::string("Preempted"); },
                [](const StandbysReady&) { return std::string("StandbysReady"); },
                [](const StoreElsewhere& elsewhere) {
                  return absl::StrCat("StoreElsewhere ", elsewhere.where);
                },
                [](const HeldStates& held) { return absl::StrCat("HeldStates", Look(held.look)); },
                [](const RestartTimed&) { return std::string("RestartTimed"); },
                [](const LogPiece&) { return std::string("LogPiece"); },
                [](const AssignmentAck&) { return std::string("AssignmentAck"); },
                [&](const WorkerExited& exit) {
                  last_exit_ = exit;
                  return absl::StrCat("WorkerExited ", exit.rank.value, " ",
                                      exit.status.Describe());
                },
                [&](const Stopped& drained) {
                  last_drained_ = drained;
                  return absl::StrCat(drained.fenced_at_ms != 0 ? "Stopped, fenced" : "Stopped",
                                      Failed(drained.failed_checkpoints), Look(drained.look),
                                      drained.states_pending ? ", states pending" : "",
                                      Stuck(drained.stuck));
                },
                [](const StacksTaken& taken) {
                  return absl::StrCat("StacksTaken ", taken.request.value);
                },
                [](const Leave& leave) { return absl::StrCat("Leave ", leave.exit_code); },
            },
            send.message));
  }

  Term term_;
  Supervisor supervisor_;
  Answers answers_ = Answers::kAtOnce;
  bool performing_ = false;
  TimePoint now_{std::chrono::hours(1)};
  int unspawnable_ = -1;
  Duration spawn_time_{};
  bool hold_spawns_ = false;
  bool hold_stores_ = false;
  bool frozen_ = false;
  std::vector<Supervisor::Event> of_the_disk_;
  int no_folder_ = -1;
  std::string error_file_;
  std::vector<std::string> log_;
  std::vector<std::string> notes_;
  std::vector<std::string> marks_;
  WorkerExited last_exit_;
  Stopped last_drained_;
  Join last_join_;
  std::vector<Heartbeat> heartbeats_;
  bool had_progress_ = false;
  std::vector<StuckProcess> stuck_;
  bool cleared_while_exiting_ = false;
  std::uint32_t told_ = 0;  // the newest report of stuck processes that was sent
  std::optional<TimePoint> fence_;
  Verdict verdict_;
  std::optional<Supervisor::FolderClaim> claim_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_CORE_SUPERVISOR_DRIVER_H_
