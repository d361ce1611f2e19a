#include "tests/scenario/job_script.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "rendezvous/core/words.h"
#include "tests/scenario/job_text.h"
#include "tests/support/one_by_one.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace {

constexpr std::int64_t kNoStep = -1;

std::string HostOf(const std::string& agent) { return agent.substr(0, agent.find('#')); }

}  // namespace

// ---- the text ----

std::string JobScript::Play(const std::string& scenario) {
  std::string played;
  std::istringstream lines(scenario);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, 2, "  ") == 0) continue;  // results of the last run
    absl::StrAppend(&played, line, "\n");
    if (line.empty() || line[0] == '#') continue;
    output_.clear();
    Execute(JobCommand::Parse(line));
    played += output_;
  }
  return played;
}

// ---- commands ----

void JobScript::Execute(const JobCommand& command) {
  const std::string& name = command.name;
  const auto each = [&](const auto& message) {
    for (const std::string& agent : command.Agents()) Receive(command, Get(agent), message);
  };
  if (name == "job") {
    Job(command);
  } else if (name == "join") {
    JoinAs(command);
  } else if (name == "beat") {
    Heartbeat heartbeat;
    if (command.values.contains("step")) heartbeat.step = command.Int("step", 0);
    for (const std::string& agent : command.Agents()) {
      if (command.values.contains("states")) heartbeat.states = States(command, Get(agent));
      if (command.values.contains("failed")) {
        heartbeat.failed_checkpoints = Failed(command, Get(agent));
      }
      heartbeat.stuck = Stuck(command, Get(agent));
      Receive(command, Get(agent), heartbeat);
    }
  } else if (name == "prepare") {
    each(AssignmentAck{});
  } else if (name == "exit") {
    Exit(command);
  } else if (name == "checkpoint") {
    each(Checkpointed{command.Int("step", 0)});
  } else if (name == "cannot-save") {
    each(CannotSave{});
  } else if (name == "preempt") {
    each(Preempted{"SIGTERM"});
  } else if (name == "elsewhere") {
    each(StoreElsewhere{"localhost:29501"});
  } else if (name == "drained") {
    Stopped drained{1000, {}, command.Int("fenced-at", 0)};
    if (command.values.contains("step")) drained.last_step = command.Int("step", 0);
    for (const std::string& agent : command.Agents()) {
      Get(agent).running = false;
      drained.states = States(command, Get(agent));
      drained.states_pending = command.values.contains("pending");
      drained.failed_checkpoints = Failed(command, Get(agent));
      drained.look = Looks(command, Get(agent));
      drained.stuck = Stuck(command, Get(agent));
      Receive(command, Get(agent), drained);
    }
  } else if (name == "found") {
    for (const std::string& agent : command.Agents()) {
      const std::vector<SavedState> states = States(command, Get(agent));
      Receive(command, Get(agent), HeldStates{states, Looks(command, Get(agent))});
    }
  } else if (name == "leave") {
    each(Leave{"SIGTERM", 143});
  } else if (name == "break") {
    for (const std::string& agent : command.Agents()) {
      Step(JobMachine::StreamBroken{Get(agent).agent_id});
    }
  } else if (name == "gone") {
    for (const std::string& agent : command.Agents()) {
      Step(JobMachine::AgentGone{Get(agent).agent_id});
    }
  } else if (name == "stop") {
    Step(JobMachine::StopAsked{command.Has("save"), 1});
  } else if (name == "drain") {
    Step(JobMachine::DrainAsked{command.Agents().at(0), 1});
  } else if (name == "wait") {
    Wait(command);
  } else if (name == "restart-daemon") {
    RestartDaemon(command);
  } else if (name == "status") {
    ShowStatus();
  } else if (name == "show-acks") {
    show_acks_ = true;
  } else {
    throw std::invalid_argument(absl::StrCat("no such command: ", name));
  }
}

void JobScript::Job(const JobCommand& command) {
  const std::vector<std::string> nodes = absl::StrSplit(command.values.at("nodes"), ':');
  spec_.min_nodes = std::stoi(nodes.front());
  spec_.max_nodes = std::stoi(nodes.back());
  spec_.max_restarts = command.Int("restarts", 0);
  spec_.join_timeout = command.Time("join-timeout", std::chrono::seconds(600));
  spec_.last_call = command.Time("last-call", std::chrono::seconds(5));
  spec_.heartbeat = command.Time("heartbeat", std::chrono::seconds(1));
  spec_.lease = command.Time("lease", std::chrono::seconds(3));
  spec_.save_timeout = command.Time("save-timeout", std::chrono::seconds(60));
  if (command.values.contains("store")) spec_.store = command.values.at("store");
  workers_ = command.Int("workers", 1);
  machine_ = std::make_unique<JobMachine>("job", command.Int("epoch", 0), options_);
}

// Also for an agent that joined before: it uses a new session and reports its state.
void JobScript::JoinAs(const JobCommand& command) {
  for (const std::string& name : command.Agents()) {
    Agent& agent = Get(name);
    agent.requeue_number = command.Int("epoch", static_cast<int>(agent.requeue_number));
    agent.generation.value = command.Int("generation", agent.generation.value);
    agent.node.worker_count = command.Int("workers", agent.node.worker_count);
    if (command.values.contains("rank")) {
      agent.node.requested_rank = NodeRank{command.Int("rank", 0)};
    }
    if (command.Has("running")) agent.running = true;
    if (command.Has("idle")) agent.running = false;
    Join join{spec_, agent.node, 1000, agent.running};
    join.states = States(command, agent);
    join.states_pending = command.values.contains("pending");
    join.failed_checkpoints = Failed(command, agent);
    agent.can_look_again = agent.can_look_again || command.Has("looks");
    join.can_look_again = agent.can_look_again;
    join.look = agent.looked;
    join.stuck = Stuck(command, agent);
    if (command.values.contains("nodes")) {
      const std::vector<std::string> nodes = absl::StrSplit(command.values.at("nodes"), ':');
      join.job.min_nodes = std::stoi(nodes.front());
      join.job.max_nodes = std::stoi(nodes.back());
    }
    join.job.max_restarts = command.Int("restarts", join.job.max_restarts);
    Receive(command, agent, join);
  }
}

// The states that the agent holds from now on: "states=none", or
// "states=memory:3:1200,durable:3:1000" (generation, step; or requeue number, generation, step).
std::vector<SavedState> JobScript::States(const JobCommand& command, Agent& agent) {
  const auto found = command.values.find("states");
  if (found == command.values.end()) return agent.states;
  agent.states.clear();
  if (found->second == "none") return {};
  for (const auto text : absl::StrSplit(found->second, ',')) {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    const std::size_t count = parts.size();
    if (count < 3 || count > 4 || (parts[0] != "memory" && parts[0] != "durable")) {
      throw std::invalid_argument(absl::StrCat(text, " is no state: memory:GENERATION:STEP"));
    }
    SavedState state;
    state.tier = parts[0] == "memory" ? Tier::kMemory : Tier::kDurable;
    state.requeue_number = count == 4 ? std::stoul(parts[1]) : agent.requeue_number;
    state.generation = Generation{std::stoi(parts[count - 2])};
    state.step = std::stoll(parts[count - 1]);
    agent.states.push_back(state);
  }
  return agent.states;
}

// The agent has looked since the last request. `before`: its look had begun before that request.
LookId JobScript::Looks(const JobCommand& command, Agent& agent) {
  if (!command.Has("before")) agent.looked = agent.asked;
  return agent.looked;
}

// "failed=3:120:disk-full": so many checkpoints failed in the agent's life, the last of this step.
FailedCheckpoints JobScript::Failed(const JobCommand& command, Agent& agent) {
  const auto found = command.values.find("failed");
  if (found == command.values.end()) return agent.failed;
  const std::vector<std::string> parts = absl::StrSplit(found->second, absl::MaxSplits(':', 2));
  if (parts.size() != 3) {
    throw std::invalid_argument(absl::StrCat(found->second, " is no COUNT:STEP:REASON"));
  }
  agent.failed = {std::stoll(parts[0]), std::stoll(parts[1]), parts[2]};
  return agent.failed;
}

// "stuck=3": SIGKILL did not end the worker of rank 3, from 2 s ago on; "stuck=none": it is gone.
StuckProcesses JobScript::Stuck(const JobCommand& command, Agent& agent) {
  const auto found = command.values.find("stuck");
  if (found == command.values.end()) return agent.stuck;
  ++agent.stuck.report;
  agent.stuck.processes.clear();
  if (found->second == "none") return agent.stuck;
  const Rank rank{std::stoi(found->second)};
  agent.stuck.processes = {{rank, 100 + rank.value, ProcessState::kDiskWait, "write(/data/log)",
                            std::chrono::seconds(2)}};
  return agent.stuck;
}

void JobScript::Exit(const JobCommand& command) {
  for (const std::string& name : command.Agents()) {
    const Agent& agent = Get(name);
    WorkerExited exit;
    exit.local_rank = LocalRank{command.Int("local", 0)};
    exit.rank = Rank{agent.first_rank.value + exit.local_rank.value};
    exit.pid = 100 + exit.rank.value;
    exit.status = ExitStatus{command.Int("code", 0), command.Int("signal", 0), false};
    const int step = command.Int("step", kNoStep);
    if (step != kNoStep) exit.step = step;
    if (command.values.contains("error")) exit.error_kind = command.values.at("error");
    Receive(command, Get(name), exit);
  }
}

// Lets time pass. The JobMachine gets a Tick at each time that it asked for. Each agent of `beat`
// sends a heartbeat once a second.
void JobScript::Wait(const JobCommand& command) {
  const TimePoint end = now_ + ParseTime(command.words.at(0));
  std::vector<std::string> beating;
  if (command.values.contains("beat")) beating = absl::StrSplit(command.values.at("beat"), ',');
  TimePoint next_beat = now_;
  running_a_wait_ = true;
  for (;;) {
    TimePoint next = end;
    if (const auto deadline = machine().NextDeadline(); deadline && *deadline < next) {
      next = std::max(now_, *deadline);
    }
    if (!beating.empty() && next_beat < end && next_beat <= next) {
      now_ = next_beat;
      for (const std::string& agent : beating) Receive(command, Get(agent), Heartbeat{});
      next_beat += spec_.heartbeat;
      continue;
    }
    if (next >= end) break;
    now_ = next;
    Step(JobMachine::Tick{});
  }
  now_ = end;
  Step(JobMachine::Tick{});
  running_a_wait_ = false;
}

// The daemon was killed, and another one reads the job records: no agent has a session. With
// `hold` the predecessor still runs, and may acknowledge heartbeats for this time.
void JobScript::RestartDaemon(const JobCommand& command) {
  now_ += command.Time("away", Duration{});
  const Duration hold = command.Time("hold", Duration{});
  if (hold > Duration{}) options_.leases_from = now_ + hold;
  if (command.Has("memory") || !record_) {
    machine_ = std::make_unique<JobMachine>("job", 0, options_);
  } else {
    machine_ = std::make_unique<JobMachine>("job", *record_, now_, options_);
  }
  ShowState();
}

void JobScript::ShowStatus() {
  const JobStatus status = machine().Status(now_);
  Print(absl::StrCat(
      "generation ", status.generation.value, ", ", ToString(status.state), " for ",
      Seconds(status.since), ", world ", status.world_size, ", restarts ", status.restarts_used,
      " of ", status.spec.max_restarts, status.step ? absl::StrCat(", step ", *status.step) : "",
      status.checkpoint ? absl::StrCat(", checkpoint ", *status.checkpoint) : "",
      status.failed_checkpoints.count > 0
          ? absl::StrCat(", failed checkpoints ", status.failed_checkpoints.count, ", the last on ",
                         status.failed_checkpoints.last_host)
          : "",
      status.last_cause ? absl::StrCat(", last cause: ", Text(*status.last_cause)) : ""));
  for (const NodeStatus& node : status.nodes) {
    Print(absl::StrCat(
        "  ", node.host, " ", node.state,
        node.rank.value < 0
            ? ""
            : absl::StrCat(", node rank ", node.rank.value, ", ranks from ", node.first_rank.value),
        ", ", node.workers, " workers, heard ", Seconds(node.heard_ago), " ago",
        node.step ? absl::StrCat(", step ", *node.step) : "",
        node.newest_state ? absl::StrCat(", holds step ", node.newest_state->step,
                                         " of generation ", node.newest_state->generation.value,
                                         " (", ToString(node.newest_state->tier), ")")
                          : ""));
  }
}

// ---- the JobMachine ----

JobScript::Agent& JobScript::Get(const std::string& name) {
  const auto found = agents_.find(name);
  if (found != agents_.end()) return found->second;
  Agent agent;
  agent.name = name;
  agent.agent_id = AgentId{agents_.size() + 1};
  agent.node = {HostOf(name), "10.0.0." + HostOf(name), workers_, {}};
  names_[agent.agent_id.value] = name;
  return agents_.emplace(name, std::move(agent)).first->second;
}

JobMachine& JobScript::machine() {
  if (machine_ == nullptr) throw std::invalid_argument("the first command must be `job`");
  return *machine_;
}

void JobScript::Receive(const JobCommand& command, Agent& agent, AgentMessage message) {
  Header header{"job", agent.requeue_number, agent.generation, agent.agent_id};
  header.generation.value = command.Int("generation", header.generation.value);
  Step(JobMachine::Received{header, std::move(message)});
}

void JobScript::Step(const JobMachine::Event& event) {
  std::vector<JobMachine::Event> next;
  for (const JobMachine::Action& action : OneByOne(machine().Step(event, now_))) {
    std::visit(
        Overloaded{
            [&](const JobMachine::Persist& persist) {
              record_ = *persist.record;
              Print(absl::StrCat(
                  "! durable: ",
                  record_->finished ? "the end"
                  : record_->generation.value < 0
                      ? absl::StrCat("epoch ", record_->requeue_number)
                      : absl::StrCat("generation ", record_->generation.value, " of ",
                                     Nodes(static_cast<int>(record_->members.size())))));
            },
            [&](const JobMachine::Send& send) { Show(send); },
            [](const JobMachine::SendToMany&) {},  // one by one
            [&](const JobMachine::Answer& answer) {
              Print(absl::StrCat("> ", answer.accepted ? "yes: " : "no: ", answer.text));
            },
            [&](const JobMachine::ShowStacks& shown) {
              Print(absl::StrCat("> stacks", shown.missing.empty() ? "" : ", not of ",
                                 absl::StrJoin(shown.missing, ", ")));
            },
            [&](const JobMachine::MergeStacks& merge) { next.push_back(stacks_.Perform(merge)); },
            [&](const JobMachine::JudgeStacks& judge) { next.push_back(stacks_.Perform(judge)); },
            [&](const JobMachine::ForgetStacks& forget) { stacks_.Perform(forget); },
            [&](const JobMachine::Happened& happened) { Print("* " + Text(happened.event)); },
            // The other notes only repeat what the actions above show.
            [&](const JobMachine::Note& note) {
              if (absl::StartsWith(note.text, "discarded")) Print("(" + note.text + ")");
            },
        },
        action);
  }
  ShowState();
  for (const JobMachine::Event& later : next) Step(later);
}

void JobScript::Show(const JobMachine::Send& send) {
  if (std::holds_alternative<HeartbeatAck>(send.message) && !show_acks_) return;
  const std::string name = NameOf(send.header.agent_id);
  Print(absl::StrCat(name, " <- ", Text(send.message)));
  const auto found = agents_.find(name);
  if (found == agents_.end()) return;
  Agent& agent = found->second;
  if (const auto* assignment = std::get_if<Assignment>(&send.message)) {
    agent.generation = send.header.generation;
    agent.first_rank = assignment->first_rank;
  } else if (std::holds_alternative<Start>(send.message)) {
    agent.running = true;
  } else if (const auto* stop = std::get_if<Stop>(&send.message)) {
    agent.asked = stop->look;
  } else if (const auto* again = std::get_if<LookAgain>(&send.message)) {
    agent.asked = again->look;
  }
}

void JobScript::ShowState() {
  const JobStatus status = machine().Status(now_);
  std::string state = ToString(status.state);
  if (!status.reason.empty()) absl::StrAppend(&state, ": ", status.reason);
  if (state == state_) return;
  state_ = state;
  Print("= " + state);
}

void JobScript::Print(const std::string& line) {
  const auto since = std::chrono::duration<double>(now_ - began_).count();
  absl::StrAppend(&output_, "  ", running_a_wait_ ? absl::StrCat("at ", since, " s: ") : "", line,
                  "\n");
}

std::string JobScript::NameOf(AgentId agent_id) const {
  const auto found = names_.find(agent_id.value);
  return found == names_.end() ? absl::StrCat("?", agent_id.value) : found->second;
}

}  // namespace ddprun
