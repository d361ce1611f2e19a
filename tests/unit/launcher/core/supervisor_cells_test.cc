// Every state × event cell of Supervisor, written down in tests/data/cells/supervisor.txt.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/cells.h"
#include "tests/support/golden.h"
#include "tests/unit/launcher/core/supervisor_driver.h"

namespace ddprun {
namespace supervisor_cells_test {

using std::chrono::seconds;

struct State {
  const char* name;
  bool workers;  // some workers run, so they can end
  std::function<void(SupervisorDriver&)> reach;
  bool starting = false;  // worker 1 is being started
};

struct Event {
  std::string name;
  bool of_a_worker;
  std::function<void(SupervisorDriver&)> send;
  bool of_a_start = false;
};

const std::vector<State>& States() {
  static const auto* states = new std::vector<State>{
      {"Joining", false, [](SupervisorDriver&) {}},
      {"Spawning", false, [](SupervisorDriver& node) { node.Assign(0); }},
      {"Running, its folders are not made", false,
       [](SupervisorDriver& node) {
         node.Freeze();
         node.Run();
       }},
      {"Running, its workers are being started", false,
       [](SupervisorDriver& node) {
         node.HoldSpawns();
         node.Run();
       },
       true},
      {"Running, one of its workers is being started", true,
       [](SupervisorDriver& node) {
         node.HoldSpawns();
         node.Run();
         node.Spawned(0);
       },
       true},
      {"Running", true, [](SupervisorDriver& node) { node.Run(); }},
      {"Running, an error file is being read", false,
       [](SupervisorDriver& node) {
         node.Run();
         node.End(1);
         node.Freeze();
         node.End(0, ExitStatus{3, 0, false});
       }},
      {"Stopping", true,
       [](SupervisorDriver& node) {
         node.Run();
         node.End(1, ExitStatus{3, 0, false});
       }},
      {"Stopping, one of its workers is being started", true,
       [](SupervisorDriver& node) {
         node.HoldSpawns();
         node.Run();
         node.Spawned(0);
         node.Stop(0);
       },
       true},
      {"Fenced", true,
       [](SupervisorDriver& node) {
         node.Run();
         node.Advance(seconds(25));
         node.End(1, ExitStatus{0, SIGKILL, false});
       }},
      {"Fenced, one of its workers is being started", true,
       [](SupervisorDriver& node) {
         node.HoldSpawns();
         node.Run();
         node.Spawned(0);
         node.Advance(seconds(25));
       },
       true},
      {"Joining, after a generation", false,
       [](SupervisorDriver& node) {
         node.Run();
         node.Stop(0);
         node.End(0, ExitStatus{0, SIGTERM, false});
         node.End(1, ExitStatus{0, SIGTERM, false});
       }},
      {"Joining, SIGKILL has not ended one of its workers", false,
       [](SupervisorDriver& node) {
         node.Run();
         node.Stop(0);
         node.End(0, ExitStatus{0, SIGTERM, false});
         node.Stick({{Rank{3}, 101}});
         node.Advance(seconds(10));
         node.Advance(seconds(2));
         node.Stick({});
       }},
      {"Running, all of them exited 0", false,
       [](SupervisorDriver& node) {
         node.Run();
         node.End(0);
         node.End(1);
       }},
      {"Leaving", true,
       [](SupervisorDriver& node) {
         node.Run();
         node.Signal(SIGTERM);
         node.End(1, ExitStatus{0, SIGTERM, false});
       }},
      {"Stopping, with a verdict", true,
       [](SupervisorDriver& node) {
         node.Run();
         node.Finish(Outcome::kFailed, 3);
         node.End(1, ExitStatus{0, SIGTERM, false});
       }},
      {"Done", false, [](SupervisorDriver& node) { node.Finish(Outcome::kSucceeded, 0); }},
      {"Failed", false, [](SupervisorDriver& node) { node.Refuse(); }},
  };
  return *states;
}

const std::vector<Event>& Rows() {
  static const auto* rows = new std::vector<Event>{
      {"Waiting", false, [](SupervisorDriver& node) { node.Receive(-1, Waiting{"for b"}); }},
      {"WorkerEnded, a victim", true,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::ErrorReported{LocalRank{0}, "collective", ""});
         node.End(0, ExitStatus{1, 0, false});
       }},
      {"Tick after the second deadline", false,
       [](SupervisorDriver& node) {
         node.Advance(seconds(11));
         node.Advance(seconds(3));
       }},
      {"Assignment of the next generation", false, [](SupervisorDriver& node) { node.Assign(1); }},
      {"Assignment of an earlier generation", false,
       [](SupervisorDriver& node) { node.Assign(-1); }},
      {"Start", false, [](SupervisorDriver& node) { node.Start(0); }},
      {"Start of another generation", false, [](SupervisorDriver& node) { node.Start(9); }},
      {"Stop", false, [](SupervisorDriver& node) { node.Stop(0); }},
      {"Stop under an earlier term", false,
       [](SupervisorDriver& node) {
         node.set_term({1, 5});
         node.Acknowledge(0);
         node.set_term({1, 4});
         node.Stop(0);
       }},
      {"HeartbeatAck of another etcd cluster", false,
       [](SupervisorDriver& node) {
         node.set_term({1, 5});
         node.Acknowledge(0);
         node.set_term({2, 3});
         node.Acknowledge(0);
       }},
      {"Stop of another generation", false, [](SupervisorDriver& node) { node.Stop(9); }},
      {"Finished, succeeded", false,
       [](SupervisorDriver& node) { node.Finish(Outcome::kSucceeded, 0); }},
      {"Finished, failed", false, [](SupervisorDriver& node) { node.Finish(Outcome::kFailed, 3); }},
      {"Refused", false, [](SupervisorDriver& node) { node.Refuse(); }},
      {"Warning", false,
       [](SupervisorDriver& node) {
         node.Receive(node.supervisor().header().generation.value, Warning{"look"});
       }},
      {"LookAgain", false,
       [](SupervisorDriver& node) {
         node.Receive(node.supervisor().header().generation.value, LookAgain{LookId{5}});
       }},
      {"LookAgain, for the third time before its disk answers", false,
       [](SupervisorDriver& node) {
         node.AnswerNothing();
         for (const std::uint64_t look : {5, 5, 6})
           node.Receive(node.supervisor().header().generation.value, LookAgain{LookId{look}});
         node.Step(Supervisor::StatesFound{});
         node.Step(Supervisor::StatesFound{});
       }},
      {"TakeStacks", false,
       [](SupervisorDriver& node) {
         node.Receive(node.supervisor().header().generation.value, TakeStacks{StackRequestId{5}});
       }},
      {"TakeStacks of another generation", false,
       [](SupervisorDriver& node) { node.Receive(9, TakeStacks{StackRequestId{5}}); }},
      {"WorkerStacksTaken", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::WorkerStacksTaken{
             node.supervisor().header().generation, StackRequestId{5}, {}});
       }},
      {"WorkerStacksTaken of another generation", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::WorkerStacksTaken{Generation{9}, StackRequestId{5}, {}});
       }},
      {"HangReported", false,
       [](SupervisorDriver& node) {
         node.Receive(node.supervisor().header().generation.value,
                      HangReported{std::make_shared<HangStacks>()});
       }},
      {"Fenced", false,
       [](SupervisorDriver& node) {
         node.Receive(node.supervisor().header().generation.value, Fenced{"not heard"});
       }},
      {"Fenced of an earlier generation", false,
       [](SupervisorDriver& node) {
         node.Receive(node.supervisor().header().generation.value - 1, Fenced{"not heard"});
       }},
      {"SessionLost", false, [](SupervisorDriver& node) { node.Lose(); }},
      {"SessionLost, SessionOpened", false,
       [](SupervisorDriver& node) {
         node.Lose();
         node.Open();
       }},
      {"SessionLost, Tick after the lease", false,
       [](SupervisorDriver& node) {
         node.Lose();
         node.Advance(seconds(25));
       }},
      {"SessionLost, Tick after the grace for the daemon", false,
       [](SupervisorDriver& node) {
         node.Lose();
         node.Advance(std::chrono::minutes(5));
       }},
      {"Tick after the lease", false, [](SupervisorDriver& node) { node.Advance(seconds(25)); }},
      {"HeartbeatAck", false, [](SupervisorDriver& node) { node.Acknowledge(0); }},
      {"Save", false, [](SupervisorDriver& node) { node.Receive(0, Save{}); }},
      {"Save of another generation", false,
       [](SupervisorDriver& node) { node.Receive(9, Save{}); }},
      {"WorkerSpoke, Save", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::WorkerSpoke{LocalRank{0}});
         node.Receive(0, Save{});
       }},
      {"WorkerSpoke, WorkerSaves not, Save", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::WorkerSpoke{LocalRank{0}});
         node.Step(Supervisor::WorkerSaves{LocalRank{0}, false});
         node.Receive(0, Save{});
       }},
      {"WorkerStays, Stop", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::WorkerStays{LocalRank{0}});
         node.Stop(0);
       }},
      {"WorkerStays, Stop, WorkerLeft", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::WorkerStays{LocalRank{0}});
         node.Stop(0);
         node.Step(Supervisor::WorkerLeft{LocalRank{0}});
       }},
      {"WorkerLeft", false,
       [](SupervisorDriver& node) { node.Step(Supervisor::WorkerLeft{LocalRank{0}}); }},
      {"CheckpointReported", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::CheckpointReported{LocalRank{0}, 5});
       }},
      {"CheckpointDamageReported", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::CheckpointDamageReported{LocalRank{0}, 5, "/c/step-5: too short"});
       }},
      {"CheckpointFailureReported, Tick after a heartbeat", false,
       [](SupervisorDriver& node) {
         node.FailToSave(0, 5, 2);
         node.Advance(seconds(1));
       }},
      {"CheckpointFailureReported, WorkerEnded", true,
       [](SupervisorDriver& node) {
         node.FailToSave(0, 5, 2);
         node.End(0);
       }},
      {"StepReported", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::StepReported{LocalRank{0}, 5});
       }},
      {"ErrorReported", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::ErrorReported{LocalRank{0}, "user", "text"});
       }},
      {"WorkerEnded, code 0", true, [](SupervisorDriver& node) { node.End(0); }},
      {"WorkerEnded, SIGSEGV", true,
       [](SupervisorDriver& node) {
         node.End(0, ExitStatus{0, SIGSEGV, true});
       }},
      {"WorkerSpawned", false, [](SupervisorDriver& node) { node.Spawned(1); }, true},
      {"SpawnFailed", false, [](SupervisorDriver& node) { node.SpawnFails(1); }, true},
      {"FoldersReady", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::FoldersReady{Generation{0}, LocalRank{0}, ""});
       }},
      {"ErrorFileRead", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::ErrorFileRead{Generation{0}, LocalRank{0}, "text"});
       }},
      {"SIGTERM", false, [](SupervisorDriver& node) { node.Signal(SIGTERM); }},
      {"SIGINT", false, [](SupervisorDriver& node) { node.Signal(SIGINT); }},
      {"SIGHUP", false, [](SupervisorDriver& node) { node.Signal(SIGHUP); }},
      {"SIGQUIT", false, [](SupervisorDriver& node) { node.Signal(SIGQUIT); }},
      {"SIGUSR1", false, [](SupervisorDriver& node) { node.Signal(SIGUSR1); }},
      {"WorkersLost", false,
       [](SupervisorDriver& node) { node.Step(Supervisor::WorkersLost{"no guardian"}); }},
      {"StuckProcessEnded", false,
       [](SupervisorDriver& node) { node.Step(Supervisor::StuckProcessEnded{101}); }},
      {"StuckProcessEnded of another process", false,
       [](SupervisorDriver& node) { node.Step(Supervisor::StuckProcessEnded{102}); }},
      {"NodeCleared that nobody waits for", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::NodeCleared{{{Rank{2}, 100}}});
       }},
      {"StartMeasured", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::StartMeasured{node.supervisor().header().generation, seconds(2)});
       }},
      {"StoreOpened", false,
       [](SupervisorDriver& node) {
         node.OpenedStore(node.supervisor().header().generation.value);
       }},
      {"StoreFailed", false,
       [](SupervisorDriver& node) {
         node.StoreFails(node.supervisor().header().generation.value);
       }},
      {"StoreSoughtElsewhere", false,
       [](SupervisorDriver& node) {
         node.Step(Supervisor::StoreSoughtElsewhere{"localhost:29501"});
       }},
      {"RestartMeasured", false,
       [](SupervisorDriver& node) {
         RestartTimes times;
         times.generation = node.supervisor().header().generation;
         node.Step(Supervisor::RestartMeasured{times});
       }},
      {"Superseded", false,
       [](SupervisorDriver& node) { node.Step(Supervisor::Superseded{"it was started again"}); }},
      {"Tick before the deadline", false, [](SupervisorDriver& node) { node.Advance(seconds(1)); }},
      {"Tick after the deadline", false, [](SupervisorDriver& node) { node.Advance(seconds(11)); }},
  };
  return *rows;
}

// The rows above, and one for each event and message that has none there.
std::vector<Event> Events() {
  std::vector<Event> events = Rows();
  ForEachWithoutRow(Supervisor::Event(), Rows(), {"AgentStarted", "Received", "SignalReceived"},
                    [&](const std::string& name, const auto& event) {
                      const auto send = [event](SupervisorDriver& node) { node.Step(event); };
                      events.push_back({name, false, send});
                    });
  ForEachWithoutRow(RendezvousMessage(), Rows(), {},
                    [&](const std::string& name, const auto& message) {
                      const auto send = [message](SupervisorDriver& node) {
                        node.Receive(node.supervisor().header().generation.value, message);
                      };
                      events.push_back({name, false, send});
                    });
  return events;
}

TEST(SupervisorCellsTest, EveryStateAndEventDoesWhatIsWrittenDown) {
  std::string text =
      "# state × event → next state: actions. Two workers; in Stopping, Leaving and Fenced worker "
      "1 "
      "is gone.\n"
      "# [ended after 2]: GenerationEnded comes after two actions; all run: AllWorkersRun.\n"
      "# Not shown: heartbeats without news, and SetFence. AgentStarted and SessionOpened came "
      "first; "
      "WorkerSpawned and SpawnFailed only answer Spawn.\n# The disk answers at once and workers "
      "start at once, but where a state says otherwise.\n";
  const std::vector<Event> events = Events();
  for (const State& state : States()) {
    absl::StrAppend(&text, "\n", state.name, "\n");
    for (const Event& event : events) {
      if (event.of_a_worker && !state.workers) continue;  // impossible: the Supervisor checks this
      if (event.of_a_start && !state.starting) continue;
      SupervisorDriver node;
      state.reach(node);
      node.Take();
      node.TakeMarks();
      event.send(node);
      const std::string said = node.TakeText();
      const std::string marks = absl::StrJoin(node.TakeMarks(), ", ");
      absl::StrAppend(&text, "  ", event.name, " -> ", ToString(node.supervisor().state()),
                      said.empty() ? "" : ": ", said);
      absl::StrAppend(&text, marks.empty() ? "" : absl::StrCat(" [", marks, "]"), "\n");
    }
  }
  ExpectGolden("tests/data/cells/supervisor.txt", text);
}

TEST(SupervisorCellsTest, AnImpossibleEventEndsTheProcessLoudly) {
  SupervisorDriver node;
  EXPECT_DEATH(node.Step(Supervisor::WorkerSpawned{LocalRank{0}, 1}), "spawned unasked");
}

}  // namespace supervisor_cells_test
}  // namespace ddprun
