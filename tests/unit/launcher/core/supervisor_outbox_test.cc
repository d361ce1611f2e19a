// Which reports to the rendezvous the Supervisor holds back until the agent has answered a
// question, and which it sends at once. Each test of a wait was seen to fail without this wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/launcher/core/supervisor_driver.h"

namespace ddprun {
namespace supervisor_outbox_test {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr ExitStatus kTerminated{0, SIGTERM, false};

// The workers have ended after a Stop, and the agent has answered nothing since.
SupervisorDriver AfterAStop() {
  SupervisorDriver node;
  node.Run();
  node.AnswerNothing();
  node.Stop(0);
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  return node;
}

// Handles `event`, and returns all actions that are ready then.
std::vector<Supervisor::Action> Decide(Supervisor& supervisor, const Supervisor::Event& event,
                                       TimePoint now) {
  supervisor.Step(event, now);
  std::vector<Supervisor::Action> actions;
  while (auto action = supervisor.NextAction(now)) actions.push_back(*std::move(action));
  return actions;
}

TEST(SupervisorOutboxTest, DrainedIsSaidOfAClearNodeWithItsStatesAndAPort) {
  SupervisorDriver node = AfterAStop();
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1", "clear"));
  node.Step(Supervisor::NodeCleared{});
  EXPECT_THAT(node.Take(), ElementsAre("scan", "offer a port"));
  node.Step(Supervisor::StatesFound{});
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Step(Supervisor::PortOffered{1234});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
  EXPECT_EQ(node.last_stopped().offered_port, 1234);
}

TEST(SupervisorOutboxTest, DrainedDoesNotWaitForADiskAndItsStatesFollow) {
  SupervisorDriver node = AfterAStop();
  node.Step(Supervisor::NodeCleared{});
  node.Take();
  node.Step(Supervisor::PortOffered{1234});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped, states pending"));
  node.Step(Supervisor::StatesFound{});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> HeldStates"));
  node.Step(Supervisor::StatesFound{});
  EXPECT_THAT(node.Take(), IsEmpty());
}

TEST(SupervisorOutboxTest, StatesThatAreFoundBetweenTwoSessionsAreInTheNextJoin) {
  SupervisorDriver node = AfterAStop();
  node.Step(Supervisor::NodeCleared{});
  node.Step(Supervisor::PortOffered{1});
  node.Lose();
  node.Take();
  node.Step(Supervisor::StatesFound{});
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Open();
  node.Step(Supervisor::PortOffered{2});
  EXPECT_THAT(node.Take(),
              ElementsAre("offer a port", "g0-> Join", "g0-> AssignmentAck", "offer a port"));
}

TEST(SupervisorOutboxTest, ADiskThatAnswersWhenWorkersRunAgainIsNotToldOf) {
  SupervisorDriver node = AfterAStop();
  node.Step(Supervisor::NodeCleared{});
  node.Step(Supervisor::PortOffered{1});
  node.Run(1);
  node.Step(Supervisor::StatesFound{});
  EXPECT_THAT(node.Take(), IsEmpty());
}

// A node that waits has looked for states before its Join. The rendezvous may ask for a newer look.
TEST(SupervisorOutboxTest, ANodeThatIsAskedLooksAgainAndTellsWhichRequestItAnswers) {
  SupervisorDriver node;
  node.Take();
  node.AnswerNothing();
  node.Receive(-1, LookAgain{LookId{5}});
  EXPECT_THAT(node.Take(), ElementsAre("scan"));
  node.Step(Supervisor::StatesFound{});
  EXPECT_THAT(node.Take(), ElementsAre("g-1-> HeldStates, look 5"));
  node.Lose();
  node.Open();
  node.Step(Supervisor::PortOffered{1});
  EXPECT_THAT(node.Take(), ElementsAre("offer a port", "g-1-> Join, look 5"));
}

TEST(SupervisorOutboxTest, EachLookAfterwardsKnowsTheRunThatItWasToldWithTheRequest) {
  Supervisor supervisor(SupervisorDriver::Options());
  const TimePoint now{std::chrono::hours(1)};
  const auto run_of = [](const std::vector<Supervisor::Action>& actions) {
    for (const auto& action : actions) {
      if (const auto* scan = std::get_if<Supervisor::ScanStates>(&action)) return scan->run_id;
    }
    return RunId{404};
  };
  EXPECT_EQ(run_of(Decide(supervisor, Supervisor::AgentStarted{}, now)), RunId{});
  Decide(supervisor, Supervisor::SessionOpened{}, now);
  Decide(supervisor, Supervisor::PortOffered{5}, now);
  Decide(supervisor, Supervisor::StatesFound{}, now);
  const Supervisor::Received asked{supervisor.header(), LookAgain{LookId{5}, RunId{7}}};
  EXPECT_EQ(run_of(Decide(supervisor, asked, now)), RunId{7});
  Decide(supervisor, Supervisor::StatesFound{}, now);
  const Supervisor::Received again{supervisor.header(), LookAgain{LookId{6}}};
  EXPECT_EQ(run_of(Decide(supervisor, again, now)), RunId{7}) << "an older rendezvous tells none";
}

TEST(SupervisorOutboxTest, ALookThatBeganBeforeItWasAskedForIsFollowedByAnother) {
  SupervisorDriver node = AfterAStop();
  node.Step(Supervisor::NodeCleared{});
  node.Step(Supervisor::PortOffered{1});
  node.Take();
  node.Receive(0, LookAgain{LookId{5}});
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Step(Supervisor::StatesFound{});
  EXPECT_THAT(node.Take(), ElementsAre("scan", "g0-> HeldStates"));
  node.Step(Supervisor::StatesFound{});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> HeldStates, look 5"));
}

TEST(SupervisorOutboxTest, WhoIsAskedWithTheStopLooksOnce) {
  SupervisorDriver node;
  node.Run();
  node.AnswerNothing();
  node.Receive(0, Stop{"a was lost", LookId{5}});
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  node.Step(Supervisor::NodeCleared{});
  node.Step(Supervisor::StatesFound{});
  node.Step(Supervisor::PortOffered{1});
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1", "clear", "scan", "offer a port",
                                       "g0-> Stopped, look 5"));
}

TEST(SupervisorOutboxTest, AnswersToWhatWasNotAskedChangeNothing) {
  SupervisorDriver node = AfterAStop();
  node.Take();
  node.Step(Supervisor::StatesFound{});
  node.Step(Supervisor::PortOffered{1});
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Step(Supervisor::NodeCleared{});
  node.Step(Supervisor::NodeCleared{});
  EXPECT_THAT(node.Take(), ElementsAre("scan", "offer a port"));
}

TEST(SupervisorOutboxTest, HeartbeatsPassEverythingButTheJoinOfTheirSession) {
  SupervisorDriver node = AfterAStop();
  const std::size_t before = node.heartbeats().size();
  node.Live(seconds(5), /*answered=*/true);
  EXPECT_EQ(node.heartbeats().size(), before + 5);

  node.Lose();
  node.Open();  // the Join waits for NodeCleared
  node.Live(seconds(5), /*answered=*/false);
  EXPECT_EQ(node.heartbeats().size(), before + 5);
}

TEST(SupervisorOutboxTest, WhatWasSaidOnALostSessionIsDropped) {
  SupervisorDriver node = AfterAStop();
  node.Take();
  node.Lose();
  node.Step(Supervisor::NodeCleared{});
  node.Step(Supervisor::StatesFound{});
  node.Step(Supervisor::PortOffered{1});
  EXPECT_THAT(node.Take(), ElementsAre("scan", "offer a port"));  // no Stopped
  node.Open();
  node.Step(Supervisor::NodeCleared{});
  EXPECT_THAT(node.Take(), ElementsAre("offer a port"));  // no "clear", no "scan": both are done
  node.Step(Supervisor::PortOffered{2});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join", "g0-> AssignmentAck", "offer a port"));
  EXPECT_EQ(node.last_join().offered_port, 2);
}

TEST(SupervisorOutboxTest, TheFirstJoinDoesNotWaitForTheScanThatBeganBeforeIt) {
  Supervisor supervisor(SupervisorDriver::Options());
  const TimePoint now{std::chrono::hours(1)};
  const auto first = Decide(supervisor, Supervisor::AgentStarted{}, now);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Supervisor::ScanStates>(first[0]));
  const auto then = Decide(supervisor, Supervisor::SessionOpened{}, now);
  ASSERT_EQ(then.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Supervisor::OfferPort>(then[0]));
  const auto joined = Decide(supervisor, Supervisor::PortOffered{5}, now);
  ASSERT_EQ(joined.size(), 1u);
  const auto& join = std::get<Join>(std::get<Supervisor::Send>(joined[0]).message);
  EXPECT_EQ(join.offered_port, 5);
  EXPECT_TRUE(join.states_pending);
  const auto last = Decide(supervisor, Supervisor::StatesFound{}, now);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<HeldStates>(std::get<Supervisor::Send>(last[0]).message));
}

TEST(SupervisorOutboxTest, AJoinWithWorkersNeedsAPortAlone) {
  SupervisorDriver node;
  node.Run();
  node.AnswerNothing();
  node.Lose();
  node.Open();
  EXPECT_THAT(node.Take(), ElementsAre("offer a port, running"));
  node.Step(Supervisor::PortOffered{7});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join, running"));
}

TEST(SupervisorOutboxTest, AnAgentExitsWithAClearNode) {
  SupervisorDriver node;
  node.Run();
  node.AnswerNothing();
  node.Signal(SIGTERM);
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1", "end standbys", "clear"));
  EXPECT_TRUE(node.supervisor().ended());
  node.Step(Supervisor::NodeCleared{});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Leave 143", "Exit 143 left"));
}

TEST(SupervisorOutboxTest, ALeaveIsDroppedWithItsSessionAndTheExitIsNot) {
  SupervisorDriver node;
  node.Run();
  node.AnswerNothing();
  node.Signal(SIGTERM);
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  node.Take();
  node.Lose();
  node.Step(Supervisor::NodeCleared{});
  EXPECT_THAT(node.Take(), ElementsAre("Exit 143 left"));
}

TEST(SupervisorOutboxTest, WithoutItsGuardianTheAgentLeavesWhateverItWaitedFor) {
  SupervisorDriver running;
  running.Run();
  running.Step(Supervisor::WorkersLost{"the guardian was killed"});
  EXPECT_THAT(running.Take(), ElementsAre("g0-> Leave 70", "Exit 70 left"));
  EXPECT_EQ(running.verdict().reason, "the guardian was killed");

  SupervisorDriver clearing = AfterAStop();
  clearing.Take();
  clearing.Step(Supervisor::WorkersLost{"the guardian was killed"});
  EXPECT_THAT(clearing.Take(), ElementsAre("g0-> Leave 70", "Exit 70 left"));

  SupervisorDriver leaving;
  leaving.Run();
  leaving.AnswerNothing();
  leaving.Signal(SIGTERM);
  leaving.End(0, kTerminated);
  leaving.End(1, kTerminated);
  leaving.Take();
  leaving.Step(Supervisor::WorkersLost{"the guardian was killed"});
  EXPECT_THAT(leaving.Take(), ElementsAre("g0-> Leave 70", "Exit 70 left"));
  leaving.Step(Supervisor::WorkersLost{"the guardian was killed"});
  EXPECT_THAT(leaving.Take(), IsEmpty());
}

TEST(SupervisorOutboxTest, WithoutItsGuardianTheAgentKeepsWhatTheRendezvousHasSaid) {
  SupervisorDriver node;
  node.Run();
  node.AnswerNothing();
  node.Finish(Outcome::kSucceeded, 0);
  node.End(0);
  node.End(1);
  node.Take();
  node.Step(Supervisor::WorkersLost{"the guardian was killed"});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Leave 70", "Exit 0 succeeded"));
}

TEST(SupervisorOutboxTest, WithoutItsGuardianTheAgentReportsWhoHadFailed) {
  SupervisorDriver node;
  node.Run();
  node.Freeze();  // the agent cannot read the error file
  node.End(0, ExitStatus{3, 0, false});
  node.Take();
  node.Step(Supervisor::WorkersLost{"the guardian was killed"});
  EXPECT_THAT(node.Take(),
              ElementsAre("g0-> WorkerExited 2 exit code 3", "g0-> Leave 70", "Exit 70 left"));
}

TEST(SupervisorOutboxTest, HeartbeatsGoOnWhileTheExitWaits) {
  SupervisorDriver node;
  node.Run();
  node.AnswerNothing();
  node.Signal(SIGTERM);
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  ASSERT_TRUE(node.supervisor().ended());
  const std::size_t before = node.heartbeats().size();
  for (int second = 0; second < 3; ++second) {
    ASSERT_TRUE(node.supervisor().NextDeadline().has_value());
    node.Advance(seconds(1));
  }
  EXPECT_EQ(node.heartbeats().size(), before + 3);
  node.Lose();
  EXPECT_EQ(node.supervisor().NextDeadline(), std::nullopt);
}

TEST(SupervisorOutboxTest, ANodeIsClearedOnceForAllThatIsSaid) {
  SupervisorDriver node = AfterAStop();
  node.Take();
  for (int answer = 0; answer < 2; ++answer) {
    node.Step(Supervisor::NodeCleared{});
    node.Step(Supervisor::StatesFound{});
    node.Step(Supervisor::PortOffered{1});
    node.Lose();
    node.Open();
  }
  const auto log = node.Take();
  EXPECT_EQ(std::count(log.begin(), log.end(), "clear"), 0);  // the only one was taken above
}

TEST(SupervisorOutboxTest, HowLongTheStartTookIsToldWithStopped) {
  SupervisorDriver node;
  node.Run();
  node.Step(Supervisor::StartMeasured{Generation{0}, std::chrono::milliseconds(1500)});
  node.Step(Supervisor::StartMeasured{Generation{1}, std::chrono::milliseconds(9)});  // another one
  node.Stop(0);
  for (int i = 0; i < 2; ++i) node.End(i, ExitStatus{0, SIGTERM, false});
  EXPECT_EQ(node.last_stopped().start, std::chrono::milliseconds(1500));
}

TEST(SupervisorOutboxTest, ARestartIsToldInItsGenerationOnly) {
  SupervisorDriver node;
  node.Run();
  RestartTimes times;
  times.generation = Generation{0};
  node.Step(Supervisor::RestartMeasured{times});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> RestartTimed"));
  times.generation = Generation{1};
  node.Step(Supervisor::RestartMeasured{times});
  EXPECT_THAT(node.Take(), IsEmpty());
}

// Runs generation 3, gives the node its verdict by `end`, and ends the workers. Returns the
// generation whose folder the agent releases, or -1.
int ReleasedBy(int first_rank, int min_nodes, const std::function<void(SupervisorDriver&)>& end) {
  SupervisorOptions options = SupervisorDriver::Options();
  options.spec.min_nodes = min_nodes;
  SupervisorDriver node(options);
  node.Assign(3, first_rank);
  node.Start(3);
  end(node);
  node.End(0, ExitStatus{0, SIGTERM, false});
  node.End(1, ExitStatus{0, SIGTERM, false});
  EXPECT_TRUE(node.supervisor().ended());
  return node.released();
}

TEST(SupervisorOutboxTest, TheFolderIsReleasedWhereTheJobIsOver) {
  const auto finish = [](SupervisorDriver& node, bool job_is_over) {
    Finished finished{Outcome::kLeft, 143, "stopped", 0, {}, {}};
    finished.job_is_over = job_is_over;
    node.Receive(3, finished);
  };
  const auto over = [&](SupervisorDriver& node) { finish(node, true); };
  const auto drained = [&](SupervisorDriver& node) { finish(node, false); };
  const auto signal = [](SupervisorDriver& node) { node.Signal(SIGINT); };
  const auto signal_then_over = [&](SupervisorDriver& node) {
    node.Signal(SIGINT);
    finish(node, true);
  };
  const auto refused = [](SupervisorDriver& node) { node.Refuse(); };
  EXPECT_EQ(ReleasedBy(0, 1, over), 3);
  EXPECT_EQ(ReleasedBy(2, 1, over), -1) << "rank 0 is another node's";
  EXPECT_EQ(ReleasedBy(0, 1, drained), -1) << "the others go on";
  EXPECT_EQ(ReleasedBy(0, 2, signal), 3);
  EXPECT_EQ(ReleasedBy(0, 1, signal), -1) << "the other one goes on";
  EXPECT_EQ(ReleasedBy(0, 1, signal_then_over), 3);
  EXPECT_EQ(ReleasedBy(0, 2, refused), -1);
}

}  // namespace supervisor_outbox_test
}  // namespace ddprun
