// Every state × event cell of Round, written down in tests/data/cells/round.txt.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/support/golden.h"
#include "tests/unit/core/round_driver.h"

namespace ddprun {
namespace round_cells_test {

using std::chrono::seconds;

constexpr std::uint32_t kEpoch = 1;

struct State {
  const char* name;
  std::function<void(RoundDriver&)> reach;
};

struct Event {
  const char* name;
  std::function<void(RoundDriver&)> send;
};

// Two agents of two workers; agent 'a' is in every state but the first.
const std::vector<State>& States() {
  static const auto* states = new std::vector<State>{
      {"Gathering, empty", [](RoundDriver&) {}},
      {"Gathering", [](RoundDriver& job) { job.Join('a'); }},
      {"LastCall",
       [](RoundDriver& job) {
         job.Join('a');
         job.Join('b');
       }},
      {"Forming",
       [](RoundDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
       }},
      {"Running",
       [](RoundDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
         for (const char agent : {'a', 'b', 'c'}) job.Prepare(agent);
       }},
      {"Saving",
       [](RoundDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
         for (const char agent : {'a', 'b', 'c'}) job.Prepare(agent);
         job.AskStop(true);
       }},
      {"Draining",
       [](RoundDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
         for (const char agent : {'a', 'b', 'c'}) job.Prepare(agent);
         job.Exit('b', 1, 0, ExitStatus{3, 0, false});
         job.Drain('b');
         job.Drain('c');
       }},
      {"Backoff",
       [](RoundDriver& job) {
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
       [](RoundDriver& job) {
         job.Join('a');
         job.Join('b');
         job.Join('c');
         for (const char agent : {'a', 'b', 'c'}) job.Prepare(agent);
         for (const char agent : {'a', 'b', 'c'}) job.Exit(agent, agent - 'a', 0, {});
       }},
      {"Failed",
       [](RoundDriver& job) {
         job.Join('a');
         job.Advance(seconds(600));
       }},
  };
  return *states;
}

const std::vector<Event>& Events() {
  static const auto* events = new std::vector<Event>{
      {"Join of a new agent", [](RoundDriver& job) { job.Join('z', 1); }},
      {"Join of a member", [](RoundDriver& job) { job.Join('a', 1); }},
      {"Join with another spec",
       [](RoundDriver& job) {
         job.Receive('z', Join{RoundDriver::Spec(1, 9), {"z", "10.0.0.z", 1}, 1});
       }},
      {"Join without workers",
       [](RoundDriver& job) {
         job.Receive('z', Join{job.spec(), {"z", "10.0.0.z", 0}, 1});
       }},
      {"Heartbeat", [](RoundDriver& job) { job.Beat('a'); }},
      {"Heartbeat of a stranger", [](RoundDriver& job) { job.Beat('z'); }},
      {"Heartbeat with failed checkpoints", [](RoundDriver& job) { job.BeatWithFailures('a', 2); }},
      {"Heartbeat with failed checkpoints, and once more",
       [](RoundDriver& job) {
         job.BeatWithFailures('a', 2);
         job.BeatWithFailures('a', 2);
       }},
      {"Heartbeat with failed checkpoints of a stranger",
       [](RoundDriver& job) { job.BeatWithFailures('z', 2); }},
      {"Join with failed checkpoints of a new agent",
       [](RoundDriver& job) {
         Join join{job.spec(), {"z", "10.0.0.z", 1}, 1};
         join.failed_checkpoints = {2, 5, "disk full"};
         job.Receive('z', join);
       }},
      {"Drained with failed checkpoints",
       [](RoundDriver& job) {
         Drained drained;
         drained.offered_port = 1000;
         drained.failed_checkpoints = {2, 5, "disk full"};
         job.Receive('a', drained);
       }},
      {"Prepared", [](RoundDriver& job) { job.Prepare('a'); }},
      {"Prepared of an earlier generation",
       [](RoundDriver& job) { job.Receive('a', Prepared{}, Generation{-1}); }},
      {"WorkerExited, code 0", [](RoundDriver& job) { job.Exit('a', 0, 0, {}); }},
      {"WorkerExited, SIGSEGV",
       [](RoundDriver& job) {
         job.Exit('a', 0, 0, ExitStatus{0, SIGSEGV, true});
       }},
      {"Drained", [](RoundDriver& job) { job.Drain('a'); }},
      {"Leave", [](RoundDriver& job) { job.Leave('a'); }},
      {"StreamBroken", [](RoundDriver& job) { job.Break('a'); }},
      {"StreamBroken of a stranger", [](RoundDriver& job) { job.Break('z'); }},
      {"AgentGone", [](RoundDriver& job) { job.Gone('a'); }},
      {"AgentGone of a stranger", [](RoundDriver& job) { job.Gone('z'); }},
      {"Join of a member on a new session, its workers run",
       [](RoundDriver& job) { job.Rejoin('a', job.round().generation().value, true); }},
      {"Join of a member on a new session, a generation behind",
       [](RoundDriver& job) { job.Rejoin('a', job.round().generation().value - 1, false); }},
      {"Join of a member with workers of another generation",
       [](RoundDriver& job) { job.Rejoin('a', job.round().generation().value - 1, true); }},
      {"Join of a stranger with workers",
       [](RoundDriver& job) { job.Rejoin('z', job.round().generation().value, true); }},
      {"Join of a lower epoch", [](RoundDriver& job) { job.JoinOfEpoch('z', kEpoch - 1); }},
      {"Join of a higher epoch", [](RoundDriver& job) { job.JoinOfEpoch('z', kEpoch + 1); }},
      {"Heartbeat of a lower epoch", [](RoundDriver& job) { job.BeatOfEpoch('a', kEpoch - 1); }},
      {"Checkpointed", [](RoundDriver& job) { job.Checkpoint('a', 7); }},
      {"CannotSave", [](RoundDriver& job) { job.Receive('a', CannotSave{}); }},
      {"RestartTimed",
       [](RoundDriver& job) {
         job.Receive('a', RestartTimed{{Generation{0}, 1, true, {{"stop", 5}}}});
       }},
      {"Preempted", [](RoundDriver& job) { job.Receive('a', Preempted{"SIGTERM"}); }},
      {"Preempted, of everybody",
       [](RoundDriver& job) {
         for (const char agent : {'a', 'b', 'c'}) job.Receive(agent, Preempted{"SIGTERM"});
       }},
      {"CannotSave of everybody",
       [](RoundDriver& job) {
         for (const char agent : {'a', 'b', 'c'}) job.Receive(agent, CannotSave{});
       }},
      {"Drained, fenced",
       [](RoundDriver& job) {
         job.Receive('a', Drained{1000, {}, 5000});
       }},
      {"StopAsked", [](RoundDriver& job) { job.AskStop(false); }},
      {"StopAsked, with a checkpoint", [](RoundDriver& job) { job.AskStop(true); }},
      {"DrainAsked of a member", [](RoundDriver& job) { job.AskDrain("a"); }},
      {"DrainAsked of a newcomer",
       [](RoundDriver& job) {
         job.Join('z', 1);
         job.Clear();
         job.AskDrain("z");
       }},
      {"DrainAsked of a stranger", [](RoundDriver& job) { job.AskDrain("y"); }},
      {"Tick before the deadline", [](RoundDriver& job) { job.Advance(seconds(1)); }},
      {"Tick after the deadline", [](RoundDriver& job) { job.Advance(seconds(600)); }},
  };
  return *events;
}

TEST(RoundCellsTest, EveryStateAndEventDoesWhatIsWrittenDown) {
  std::string text =
      "# state × event → next state: messages sent (agent<-generation)\n"
      "# Three nodes at most and two at least, one worker each, two restarts, no lease.\n";
  for (const State& state : States()) {
    absl::StrAppend(&text, "\n", state.name, "\n");
    for (const Event& event : Events()) {
      JobSpec spec = RoundDriver::Spec(2, 3, 2);
      RoundDriver job(spec, RoundOptions{.leases = false}, kEpoch);
      job.set_workers(1);
      state.reach(job);
      job.Clear();
      event.send(job);
      const std::string said = job.TakeText();
      absl::StrAppend(&text, "  ", event.name, " -> ", ToString(job.round().state()),
                      said.empty() ? "" : ": ", said, "\n");
    }
  }
  ExpectGolden("tests/data/cells/round.txt", text);
}

}  // namespace round_cells_test
}  // namespace ddprun
