// Checks every state × event cell of JobMachine against tests/data/cells/job_machine.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cells.h"
#include "tests/support/golden.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace job_machine_cells_test {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint32_t kEpoch = 1;

struct State {
  const char* name;
  std::function<void(JobMachineDriver&)> reach;
};

struct Event {
  std::string name;
  std::function<void(JobMachineDriver&)> send;
};

// A worker that SIGKILL did not end; nullopt: it is gone.
StuckProcesses Stuck(std::optional<int> pid) {
  if (!pid) return {2, {}};
  return {1, {{Rank{0}, *pid, ProcessState::kDiskWait, "a disk"}}};
}

void BeatStuck(JobMachineDriver& job, char agent, std::optional<int> pid) {
  Heartbeat heartbeat;
  heartbeat.stuck = Stuck(pid);
  job.Receive(agent, heartbeat);
}

// Two agents with two workers each; agent 'a' is in every state except the first.
const std::vector<State>& States() {
  static const auto* states = new std::vector<State>{
      {"Gathering, empty", [](JobMachineDriver&) {}},
      {"Gathering", [](JobMachineDriver& job) { job.Join('a'); }},
      {"LastCall",
       [](JobMachineDriver& job) {
         job.Join('a');
         job.Join('b');
       }},
      {"Forming",
       [](JobMachineDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
       }},
      {"Running",
       [](JobMachineDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
         for (const char agent : {'a', 'b', 'c'}) job.Prepare(agent);
       }},
      {"Running, a verdict on a hang waits for stacks",
       [](JobMachineDriver& job) {
         job.HoldStacks();
         for (const char agent : {'a', 'b', 'c'}) job.Join(agent);
         for (const char agent : {'a', 'b', 'c'}) job.Prepare(agent);
         const auto beat = [&](Duration still) {
           for (const char agent : {'a', 'b', 'c'}) {
             Heartbeat heartbeat;
             heartbeat.progress = NodeProgress{1, still, {""}};
             job.Receive(agent, heartbeat);
           }
         };
         beat(Duration{});
         job.Advance(kDefaultHangStartupTimeout - seconds(1));
         beat(kDefaultHangStartupTimeout - seconds(1));
         job.Advance(seconds(1));
       }},
      {"Saving",
       [](JobMachineDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
         for (const char agent : {'a', 'b', 'c'}) job.Prepare(agent);
         job.AskStop(true);
       }},
      {"Draining",
       [](JobMachineDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
         for (const char agent : {'a', 'b', 'c'}) job.Prepare(agent);
         job.Exit('b', 1, 0, ExitStatus{3, 0, false});
         job.Drain('b');
         job.Drain('c');
       }},
      {"Backoff",
       [](JobMachineDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
         for (int generation = 0; generation < 2; ++generation) {
           for (const char agent : {'a', 'b', 'c'}) job.Prepare(agent);
           job.Exit('b', 1, 0, ExitStatus{3, 0, false});
           for (const char agent : {'a', 'b', 'c'}) job.Drain(agent);
         }
       }},
      {"Succeeded",
       [](JobMachineDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
         for (const char agent : {'a', 'b', 'c'}) job.Prepare(agent);
         for (const char agent : {'a', 'b', 'c'}) job.Exit(agent, agent - 'a', 0, {});
       }},
      {"Failed",
       [](JobMachineDriver& job) {
         job.Join('a');
         job.Advance(seconds(600));
       }},
  };
  return *states;
}

const std::vector<Event>& Rows() {
  static const auto* rows = new std::vector<Event>{
      {"Join of a new agent", [](JobMachineDriver& job) { job.Join('z', 1); }},
      {"Join of a member", [](JobMachineDriver& job) { job.Join('a', 1); }},
      {"Join with another spec",
       [](JobMachineDriver& job) {
         job.Receive('z', Join{JobMachineDriver::Spec(1, 9), {"z", "10.0.0.z", 1}, 1});
       }},
      {"Join without workers",
       [](JobMachineDriver& job) {
         job.Receive('z', Join{job.spec(), {"z", "10.0.0.z", 0}, 1});
       }},
      {"Heartbeat", [](JobMachineDriver& job) { job.Beat('a'); }},
      {"Heartbeat of a stranger", [](JobMachineDriver& job) { job.Beat('z'); }},
      {"Heartbeat with failed checkpoints",
       [](JobMachineDriver& job) { job.BeatWithFailures('a', 2); }},
      {"Heartbeat with failed checkpoints, and once more",
       [](JobMachineDriver& job) {
         job.BeatWithFailures('a', 2);
         job.BeatWithFailures('a', 2);
       }},
      {"Heartbeat with failed checkpoints of a stranger",
       [](JobMachineDriver& job) { job.BeatWithFailures('z', 2); }},
      {"Join with failed checkpoints of a new agent",
       [](JobMachineDriver& job) {
         Join join{job.spec(), {"z", "10.0.0.z", 1}, 1};
         join.failed_checkpoints = {2, 5, "disk full"};
         job.Receive('z', join);
       }},
      {"Stopped with failed checkpoints",
       [](JobMachineDriver& job) {
         Stopped drained;
         drained.offered_port = 1000;
         drained.failed_checkpoints = {2, 5, "disk full"};
         job.Receive('a', drained);
       }},
      {"Join with a stuck process of a new agent",
       [](JobMachineDriver& job) {
         Join join{job.spec(), {"z", "10.0.0.z", 1}, 1};
         join.stuck = Stuck(101);
         job.Receive('z', join);
       }},
      {"Join with a stuck process of a member on a new session",
       [](JobMachineDriver& job) {
         Join join{job.spec(), {"a", "10.0.0.a", 1}, 1};
         join.stuck = Stuck(101);
         job.Receive('a', join);
       }},
      {"Stopped with a stuck process",
       [](JobMachineDriver& job) {
         Stopped stopped{1000, {}};
         stopped.stuck = Stuck(101);
         job.Receive('a', stopped);
       }},
      {"Stopped with a stuck process, Heartbeat that it is gone",
       [](JobMachineDriver& job) {
         Stopped stopped{1000, {}};
         stopped.stuck = Stuck(101);
         job.Receive('a', stopped);
         job.Clear();
         BeatStuck(job, 'a', std::nullopt);
       }},
      {"Heartbeat with a stuck process", [](JobMachineDriver& job) { BeatStuck(job, 'a', 101); }},
      {"Heartbeat with a stuck process of a stranger",
       [](JobMachineDriver& job) { BeatStuck(job, 'z', 101); }},
      {"AssignmentAck", [](JobMachineDriver& job) { job.Prepare('a'); }},
      {"AssignmentAck of an earlier generation",
       [](JobMachineDriver& job) { job.Receive('a', AssignmentAck{}, Generation{-1}); }},
      {"WorkerExited, code 0", [](JobMachineDriver& job) { job.Exit('a', 0, 0, {}); }},
      {"WorkerExited, SIGSEGV",
       [](JobMachineDriver& job) {
         job.Exit('a', 0, 0, ExitStatus{0, SIGSEGV, true});
       }},
      {"Stopped", [](JobMachineDriver& job) { job.Drain('a'); }},
      {"Leave", [](JobMachineDriver& job) { job.Leave('a'); }},
      {"StreamBroken", [](JobMachineDriver& job) { job.Break('a'); }},
      {"StreamBroken of a stranger", [](JobMachineDriver& job) { job.Break('z'); }},
      {"AgentGone", [](JobMachineDriver& job) { job.Gone('a'); }},
      {"AgentGone of a stranger", [](JobMachineDriver& job) { job.Gone('z'); }},
      {"Join of a member on a new session, its workers run",
       [](JobMachineDriver& job) { job.Rejoin('a', job.machine().generation().value, true); }},
      {"Join of a member on a new session, a generation behind",
       [](JobMachineDriver& job) { job.Rejoin('a', job.machine().generation().value - 1, false); }},
      {"Join of a member with workers of another generation",
       [](JobMachineDriver& job) { job.Rejoin('a', job.machine().generation().value - 1, true); }},
      {"Join of a stranger with workers",
       [](JobMachineDriver& job) { job.Rejoin('z', job.machine().generation().value, true); }},
      {"Join of a lower epoch", [](JobMachineDriver& job) { job.JoinOfEpoch('z', kEpoch - 1); }},
      {"Join of a higher epoch", [](JobMachineDriver& job) { job.JoinOfEpoch('z', kEpoch + 1); }},
      {"Heartbeat of a lower epoch",
       [](JobMachineDriver& job) { job.BeatOfEpoch('a', kEpoch - 1); }},
      {"Checkpointed", [](JobMachineDriver& job) { job.Checkpoint('a', 7); }},
      {"CheckpointDamaged",
       [](JobMachineDriver& job) {
         job.Receive('a', CheckpointDamaged{7, "/c/step-7: too short"});
       }},
      {"CannotSave", [](JobMachineDriver& job) { job.Receive('a', CannotSave{}); }},
      {"RestartTimed",
       [](JobMachineDriver& job) {
         job.Receive('a', RestartTimed{{Generation{0}, 1, true, {{"stop", 5}}}});
       }},
      {"HeldStates",
       [](JobMachineDriver& job) {
         job.Receive('a', HeldStates{{{kEpoch, Generation{0}, 40, Tier::kDurable}}});
       }},
      {"Join of one that can look again, AgentGone of a member",
       [](JobMachineDriver& job) {
         Join join{job.spec(), {"z", "10.0.0.z", 1}, 1};
         join.can_look_again = true;
         job.Receive('z', join);
         job.Gone('b');
       }},
      {"Join of one that can look again, AgentGone of a member, HeldStates of before",
       [](JobMachineDriver& job) {
         Join join{job.spec(), {"z", "10.0.0.z", 1}, 1};
         join.can_look_again = true;
         job.Receive('z', join);
         job.Gone('b');
         job.Receive('z', HeldStates{});
       }},
      {"HeldStates of a stranger", [](JobMachineDriver& job) { job.Receive('z', HeldStates{}); }},
      {"Preempted", [](JobMachineDriver& job) { job.Receive('a', Preempted{"SIGTERM"}); }},
      {"Preempted, of everybody",
       [](JobMachineDriver& job) {
         for (const char agent : {'a', 'b', 'c'}) job.Receive(agent, Preempted{"SIGTERM"});
       }},
      {"StoreElsewhere",
       [](JobMachineDriver& job) { job.Receive('a', StoreElsewhere{"localhost:29501"}); }},
      {"Join of one that can start standbys",
       [](JobMachineDriver& job) {
         job.BeatOfOneThatCanStandBy('a');
         job.JoinAndStartStandbys('z');
       }},
      {"Join of one that can start standbys, StandbysReady",
       [](JobMachineDriver& job) {
         job.BeatOfOneThatCanStandBy('a');
         job.JoinAndStartStandbys('z');
         job.Receive('z', StandbysReady{});
       }},
      {"CannotSave of everybody",
       [](JobMachineDriver& job) {
         for (const char agent : {'a', 'b', 'c'}) job.Receive(agent, CannotSave{});
       }},
      {"Stopped, fenced",
       [](JobMachineDriver& job) {
         job.Receive('a', Stopped{1000, {}, 5000});
       }},
      {"StopAsked", [](JobMachineDriver& job) { job.AskStop(false); }},
      {"StopAsked, with a checkpoint", [](JobMachineDriver& job) { job.AskStop(true); }},
      {"DrainAsked of a member", [](JobMachineDriver& job) { job.AskDrain("a"); }},
      {"DrainAsked of a newcomer",
       [](JobMachineDriver& job) {
         job.Join('z', 1);
         job.Clear();
         job.AskDrain("z");
       }},
      {"DrainAsked of a stranger", [](JobMachineDriver& job) { job.AskDrain("y"); }},
      {"StacksAsked, every node answers", [](JobMachineDriver& job) { job.AskStacks(); }},
      {"StacksAsked, StacksTaken of two",
       [](JobMachineDriver& job) {
         job.HoldStacks();
         job.AskStacks();
         job.SendStacks('a', {});
         job.SendStacks('b', {});
       }},
      {"StacksAsked, AgentGone of a member",
       [](JobMachineDriver& job) {
         job.HoldStacks();
         job.AskStacks();
         job.Gone('a');
       }},
      {"StacksAsked, Stopped of everybody",
       [](JobMachineDriver& job) {
         job.HoldStacks();
         job.AskStacks();
         for (const char agent : {'a', 'b', 'c'}) job.Drain(agent);
       }},
      {"StacksAsked, Tick after 5 s",
       [](JobMachineDriver& job) {
         job.HoldStacks();
         job.AskStacks();
         job.Advance(seconds(5));
       }},
      {"StacksAsked, StopAsked",
       [](JobMachineDriver& job) {
         job.HoldStacks();
         job.AskStacks();
         job.AskStop(false);
       }},
      {"StacksTaken of everybody",
       [](JobMachineDriver& job) {
         for (const char agent : {'a', 'b', 'c'}) job.SendStacks(agent, {});
       }},
      {"StacksTaken of everybody, a rank has moved",
       [](JobMachineDriver& job) {
         Heartbeat heartbeat;
         heartbeat.progress = NodeProgress{1, Duration{}, {""}};
         job.Receive('a', heartbeat);
         for (const char agent : {'a', 'b', 'c'}) job.SendStacks(agent, {});
       }},
      {"StacksAsked, StacksTaken of everybody, StopAsked, then StacksJudged",
       [](JobMachineDriver& job) {
         job.HoldFindings();
         job.AskStacks();
         job.AskStop(false);
         job.TellFindings();
       }},
      {"StacksMerged and StacksJudged that nobody has asked for",
       [](JobMachineDriver& job) { job.TellFindingsOf(StackRequestId{5}); }},
      {"StacksTaken that nobody has asked for",
       [](JobMachineDriver& job) { job.AnswerStacks('a', StackRequestId{5}); }},
      {"StacksTaken of a stranger",
       [](JobMachineDriver& job) { job.AnswerStacks('z', StackRequestId{5}); }},
      {"Tick before the deadline", [](JobMachineDriver& job) { job.Advance(seconds(1)); }},
      {"Tick after the deadline", [](JobMachineDriver& job) { job.Advance(seconds(600)); }},
  };
  return *rows;
}

// The rows, and a default row for each event and message that has none.
std::vector<Event> Events() {
  std::vector<Event> events = Rows();
  ForEachWithoutRow(JobMachine::Event(), Rows(), {"Received"},
                    [&](const std::string& name, const auto& event) {
                      events.push_back({name, [event](JobMachineDriver& job) { job.Step(event); }});
                    });
  ForEachWithoutRow(AgentMessage(), Rows(), {}, [&](const std::string& name, const auto& message) {
    events.push_back({name, [message](JobMachineDriver& job) { job.Receive('a', message); }});
  });
  return events;
}

// All texts to operators, agents and the log for an event in a state.
std::vector<std::string> Sentences(const State& state, const Event& event, const char* job_name) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 3, 2), JobMachineOptions{.leases = false}, kEpoch,
                       job_name);
  job.set_workers(1);
  state.reach(job);
  event.send(job);
  std::vector<std::string> sentences = job.Take();
  for (std::string& note : job.TakeNotes()) sentences.push_back(std::move(note));
  for (JobEvent& told : job.TakeEvents()) sentences.push_back(std::move(told.reason));
  sentences.push_back(job.last_finished().reason);
  return sentences;
}

// Fails if an answer contains the internal name of a job without an id.
TEST(JobMachineCellsTest, AJobWithoutAnIdIsNotCalledNone) {
  int named = 0;
  for (const State& state : States()) {
    for (const Event& event : Events()) {
      for (const std::string& sentence : Sentences(state, event, kUnnamedJob)) {
        EXPECT_THAT(sentence, Not(HasSubstr(kUnnamedJob))) << state.name << ": " << event.name;
      }
      for (const std::string& sentence : Sentences(state, event, "exp7")) {
        named += sentence.find("job exp7") != std::string::npos ? 1 : 0;
      }
    }
  }
  EXPECT_GT(named, 100) << "these sentences do not name their job";
}

TEST(JobMachineCellsTest, EveryStateAndEventDoesWhatIsWrittenDown) {
  std::string text =
      "# state × event → next state: messages sent (agent<-generation)\n"
      "# Three nodes at most and two at least, one worker each, two restarts, no lease.\n";
  const std::vector<Event> events = Events();
  for (const State& state : States()) {
    absl::StrAppend(&text, "\n", state.name, "\n");
    for (const Event& event : events) {
      JobSpec spec = JobMachineDriver::Spec(2, 3, 2);
      JobMachineDriver job(spec, JobMachineOptions{.leases = false}, kEpoch);
      job.set_workers(1);
      state.reach(job);
      job.Clear();
      event.send(job);
      const std::string said = job.TakeText();
      absl::StrAppend(&text, "  ", event.name, " -> ", ToString(job.machine().state()),
                      said.empty() ? "" : ": ", said, "\n");
    }
  }
  ExpectGolden("tests/data/cells/job_machine.txt", text);
}

}  // namespace job_machine_cells_test
}  // namespace ddprun
