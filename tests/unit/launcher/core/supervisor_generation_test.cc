// When a generation begins and ends, and the order of the actions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/unit/launcher/core/supervisor_driver.h"

namespace ddprun {
namespace supervisor_generation_test {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr ExitStatus kTerminated{0, SIGTERM, false};
constexpr ExitStatus kFailed{3, 0, false};

// The workers of generation 0 run, and the marks of their start are taken.
SupervisorDriver Running() {
  SupervisorDriver node;
  node.Run();
  node.TakeMarks();
  return node;
}

TEST(SupervisorGenerationTest, AllWorkersRunIsSaidOnceWithTheLastOne) {
  SupervisorDriver node;
  node.HoldSpawns();
  node.Run();
  node.Spawned(1);
  EXPECT_THAT(node.TakeMarks(), IsEmpty());
  node.Spawned(0);
  EXPECT_THAT(node.TakeMarks(), ElementsAre("all run after 0"));
  node.End(0);
  EXPECT_THAT(node.TakeMarks(), IsEmpty());
}

TEST(SupervisorGenerationTest, OneThatHasEndedByThenCounts) {
  SupervisorDriver node;
  node.HoldSpawns();
  node.Run();
  node.Spawned(0);
  node.End(0);
  node.Take();
  node.Spawned(1);
  EXPECT_THAT(node.TakeMarks(), ElementsAre("all run after 0"));
}

TEST(SupervisorGenerationTest, AllWorkersRunIsNotSaidOfAGenerationThatIsOver) {
  SupervisorDriver failed;
  failed.HoldSpawns();
  failed.Run();
  failed.SpawnFails(0);
  failed.Spawned(1);
  EXPECT_THAT(failed.TakeMarks(), ElementsAre("ended after 1"));

  SupervisorDriver stopped;
  stopped.HoldSpawns();
  stopped.Run();
  stopped.Stop(0);
  stopped.Spawned(0);
  stopped.Spawned(1);
  EXPECT_THAT(stopped.TakeMarks(), ElementsAre("ended after 0"));
}

TEST(SupervisorGenerationTest, ItsEndIsSaidOnceAndBeforeItsWorkersAreEnded) {
  const std::vector<std::function<void(SupervisorDriver&)>> ways = {
      [](SupervisorDriver& node) { node.Stop(0); },
      [](SupervisorDriver& node) { node.Signal(SIGINT); },
      [](SupervisorDriver& node) { node.Finish(Outcome::kFailed, 3); },
      [](SupervisorDriver& node) { node.Refuse(); },
      [](SupervisorDriver& node) { node.Advance(seconds(25)); },  // the lease is over
      [](SupervisorDriver& node) { node.Step(Supervisor::Superseded{"it was started again"}); },
  };
  for (const auto& end : ways) {
    SupervisorDriver node = Running();
    end(node);
    EXPECT_THAT(node.TakeMarks(), ElementsAre("ended after 0")) << node.TakeText();
    node.End(0, kTerminated);
    node.End(1, kTerminated);
    EXPECT_THAT(node.TakeMarks(), IsEmpty());
  }
}

TEST(SupervisorGenerationTest, ItsEndIsSaidAfterAFailureWasReported) {
  SupervisorDriver node = Running();
  node.End(1, kFailed);
  EXPECT_THAT(node.TakeMarks(), ElementsAre("ended after 1"));
  EXPECT_THAT(node.Take(), ElementsAre("g0-> WorkerExited 3 exit code 3", "SIGTERM to 0"));
}

TEST(SupervisorGenerationTest, ItsEndIsSaidWhereTheNextOneComesUnasked) {
  SupervisorDriver node = Running();
  node.End(0);
  node.End(1);
  EXPECT_THAT(node.TakeMarks(), IsEmpty()) << "the others of the job run";
  node.Take();
  node.Assign(1);
  EXPECT_THAT(node.TakeMarks(), ElementsAre("ended after 0"));
}

TEST(SupervisorGenerationTest, ItsEndIsSaidWhereTheGuardianIsLost) {
  SupervisorDriver node = Running();
  node.Step(Supervisor::WorkersLost{"no guardian"});
  EXPECT_THAT(node.TakeMarks(), ElementsAre("ended after 0"));
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Leave 70", "Exit 70 left"));
}

TEST(SupervisorGenerationTest, AWorkerThatWasNotStartedAnyMoreIsNotWaitedFor) {
  SupervisorDriver node;
  node.HoldSpawns();
  node.Run();
  node.Spawned(0);
  node.Stop(0);
  node.SpawnFails(1);
  node.Take();
  node.End(0, kTerminated);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
}

TEST(SupervisorGenerationTest, HeartbeatsTellOfProgressWhileAGenerationRuns) {
  SupervisorDriver node;
  node.Advance(seconds(1));
  EXPECT_FALSE(node.last_had_progress());
  node.Assign(0);
  node.Advance(seconds(1));
  EXPECT_FALSE(node.last_had_progress());
  node.Start(0);
  node.Advance(seconds(1));
  EXPECT_TRUE(node.last_had_progress());
  node.Stop(0);
  node.Advance(seconds(1));
  EXPECT_FALSE(node.last_had_progress());
  EXPECT_EQ(node.heartbeats().size(), 4u);
}

TEST(SupervisorGenerationTest, WithoutLeasesHeartbeatsBeginWithWorkersThatWillTellTheirSteps) {
  for (const bool tells : {false, true}) {
    SupervisorOptions options = SupervisorDriver::WithoutLeases();
    options.tells_steps = tells;
    SupervisorDriver node(options);
    node.Run();
    node.Live(seconds(10), /*answered=*/true);
    EXPECT_EQ(node.heartbeats().empty(), !tells);
    node.Stop(0);
    node.End(0, kTerminated);
    node.End(1, kTerminated);
    const std::size_t before = node.heartbeats().size();
    node.Live(seconds(10), /*answered=*/true);
    EXPECT_EQ(node.heartbeats().size(), before);
  }
}

// A Supervisor whose owner performs no action before DoAll().
class SlowOwner {
 public:
  SlowOwner() : supervisor_(SupervisorDriver::Options()) {
    Step(Supervisor::AgentStarted{});
    Step(Supervisor::SessionOpened{});
  }
  void Step(const Supervisor::Event& event) { supervisor_.Step(event, now_); }
  void Receive(RendezvousMessage message) {
    Step(Supervisor::Received{{"job", 0, Generation{0}, AgentId{7}}, std::move(message)});
  }
  void Run() {
    DoAll();
    Step(Supervisor::PortOffered{1});
    Receive(Assignment{});
    Step(Supervisor::FoldersReady{Generation{0}, LocalRank{0}, ""});
    Receive(Start{});
    for (const int i : {0, 1}) Step(Supervisor::WorkerSpawned{LocalRank{i}, 100 + i});
    DoAll();
  }
  void TickAfter(Duration time) {
    now_ += time;
    Step(Supervisor::Tick{});
  }
  // Performs all actions, and returns them without SetFence.
  std::vector<std::string> DoAll() {
    std::vector<std::string> done;
    while (const auto action = supervisor_.NextAction(now_)) {
      if (!std::holds_alternative<Supervisor::SetFence>(*action)) done.push_back(NameOf(*action));
    }
    return done;
  }

 private:
  static std::string NameOf(const Supervisor::Action& action) {
    if (std::holds_alternative<Supervisor::SendHeartbeat>(action)) return "heartbeat";
    if (std::holds_alternative<Supervisor::OfferPort>(action)) return "offer a port";
    if (std::holds_alternative<Supervisor::GenerationEnded>(action)) return "ended";
    if (const auto* exit = std::get_if<Supervisor::Exit>(&action)) {
      return absl::StrCat("exit ", exit->verdict.exit_code);
    }
    const auto* const send = std::get_if<Supervisor::Send>(&action);
    if (send == nullptr) return "other";
    if (std::holds_alternative<Join>(send->message)) return "Join";
    if (std::holds_alternative<Leave>(send->message)) return "Leave";
    return "message";
  }

  Supervisor supervisor_;
  TimePoint now_{std::chrono::hours(1)};
};

TEST(SupervisorGenerationTest, AHeartbeatIsDoneBeforeWhatWasDecidedEarlier) {
  SlowOwner node;
  node.Run();
  node.Step(Supervisor::CheckpointReported{LocalRank{0}, 5});
  node.TickAfter(seconds(1));
  EXPECT_THAT(node.DoAll(), ElementsAre("heartbeat", "message"));
}

TEST(SupervisorGenerationTest, AHeartbeatIsDoneAfterTheJoinOfItsSession) {
  SlowOwner node;
  EXPECT_THAT(node.DoAll(), ElementsAre("other", "offer a port"));
  node.TickAfter(seconds(1));
  EXPECT_THAT(node.DoAll(), IsEmpty());
  node.Step(Supervisor::PortOffered{1});
  EXPECT_THAT(node.DoAll(), ElementsAre("Join", "heartbeat"));
}

TEST(SupervisorGenerationTest, WithoutItsGuardianNothingIsDoneOfWhatWasDecidedForTheWorkers) {
  SlowOwner node;
  node.Run();
  node.Receive(Stop{"a peer failed"});
  node.Step(Supervisor::WorkersLost{"no guardian"});
  EXPECT_THAT(node.DoAll(), ElementsAre("ended", "Leave", "exit 70"));
}

TEST(SupervisorGenerationTest, WithoutItsGuardianTheAgentExitsAsWasDecidedAndNotDone) {
  SlowOwner node;
  node.Run();
  node.Receive(Finished{Outcome::kSucceeded, 0, "done", 0, {}, {}});
  for (const int i : {0, 1}) node.Step(Supervisor::WorkerEnded{LocalRank{i}, {}, {}, 1, false});
  node.Step(Supervisor::WorkersLost{"no guardian"});
  EXPECT_THAT(node.DoAll(), ElementsAre("ended", "Leave", "exit 0"));
}

}  // namespace supervisor_generation_test
}  // namespace ddprun
