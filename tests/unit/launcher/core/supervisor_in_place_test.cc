// Supervisor: workers that leave their generation and continue in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "launcher/core/supervisor.h"
#include "tests/unit/launcher/core/supervisor_driver.h"

namespace ddprun {
namespace supervisor_in_place_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr ExitStatus kKilled{0, SIGKILL, false};
constexpr ExitStatus kTerminated{0, SIGTERM, false};

void Stay(SupervisorDriver& node, int local_rank) {
  node.Step(Supervisor::WorkerStays{LocalRank{local_rank}});
}
void Leave(SupervisorDriver& node, int local_rank) {
  node.Step(Supervisor::WorkerLeft{LocalRank{local_rank}});
}

// Both workers can continue in place.
void RunInPlace(SupervisorDriver& node, int generation = 0) {
  node.Run(generation);
  Stay(node, 0);
  Stay(node, 1);
  node.Take();
}

TEST(SupervisorInPlaceTest, ThePeerOfADeadWorkerLeavesAndTheRanksAreGivenBack) {
  SupervisorDriver node;
  RunInPlace(node);
  node.End(1, kKilled);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> WorkerExited 3 SIGKILL", "ask to leave: 0"));
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kStopping);
  Leave(node, 0);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
  EXPECT_EQ(node.fence(), std::nullopt) << "who has left holds no rank";
}

// A generation whose workers `stay`. Worker 1 dies, and worker 0 leaves or ends. Whether the node
// was then cleared without a wait for exiting workers.
bool NeedNotBeGone(bool agent_store, const std::vector<int>& stay) {
  SupervisorDriver node;
  node.Assign(0, /*first_rank=*/2, agent_store);
  node.Start(0);
  for (const int worker : stay) Stay(node, worker);
  node.End(1, kKilled);
  Leave(node, 0);
  node.End(0, kTerminated);
  return node.cleared_while_exiting();
}

TEST(SupervisorInPlaceTest, NobodyWaitsForAnExitingWorkerThatHoldsNothing) {
  EXPECT_TRUE(NeedNotBeGone(/*agent_store=*/true, {0, 1}));
  EXPECT_FALSE(NeedNotBeGone(/*agent_store=*/false, {0, 1})) << "MASTER_PORT";
  EXPECT_FALSE(NeedNotBeGone(/*agent_store=*/true, {0})) << "any port";
}

TEST(SupervisorInPlaceTest, AtTheEndOfTheJobAllWorkersAreGone) {
  SupervisorDriver node;
  node.Assign(0, /*first_rank=*/2, /*agent_store=*/true);
  node.Start(0);
  Stay(node, 0);
  Stay(node, 1);
  node.Finish(Outcome::kFailed, 1);
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  EXPECT_TRUE(node.supervisor().ended());
  EXPECT_FALSE(node.cleared_while_exiting());
}

TEST(SupervisorInPlaceTest, AStopOfTheRendezvousAsksAllThatStayAndEndsTheOthers) {
  SupervisorDriver node;
  node.Run();
  Stay(node, 1);
  node.Take();
  node.Stop(0);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0", "ask to leave: 1"));
  Leave(node, 1);
  EXPECT_THAT(node.Take(), IsEmpty());
  node.End(0, kTerminated);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
}

TEST(SupervisorInPlaceTest, OneThatDoesNotLeaveInTimeIsEndedAsOthersAre) {
  SupervisorDriver node;
  RunInPlace(node);
  node.Stop(0);
  node.Take();
  node.TakeNotes();
  Leave(node, 0);
  node.Advance(milliseconds(1'999));
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Advance(milliseconds(1));
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 1"));
  EXPECT_THAT(node.TakeNotes(),
              ElementsAre(HasSubstr("rank 3 (pid 101) did not leave the generation within 2 s: ")));
  node.Advance(milliseconds(7'999));
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Advance(milliseconds(1));
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 1"));
  node.End(1, kKilled);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
}

TEST(SupervisorInPlaceTest, OneThatDiesWhileItLeavesIsNoFailure) {
  SupervisorDriver node;
  RunInPlace(node);
  node.Stop(0);
  Leave(node, 0);
  node.Take();
  node.End(1, kKilled);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
  node.Live(seconds(20), /*answered=*/true);
  EXPECT_THAT(node.Take(), IsEmpty()) << "nobody is left to be ended";
}

TEST(SupervisorInPlaceTest, WhatAWorkerSaidHoldsForItsGeneration) {
  SupervisorDriver node;
  RunInPlace(node);
  node.Stop(0);
  Leave(node, 0);
  Leave(node, 1);
  node.Run(1);
  node.Stop(1);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1"));
}

TEST(SupervisorInPlaceTest, OneThatWasNotAskedHasNotLeft) {
  SupervisorDriver node;
  RunInPlace(node);
  Leave(node, 1);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kRunning);
  node.Stop(0);
  EXPECT_THAT(node.Take(), ElementsAre("ask to leave: 0,1"));
}

TEST(SupervisorInPlaceTest, OneThatDoesNotStayCannotLeave) {
  SupervisorDriver node;
  node.Run();
  node.Stop(0);
  node.Take();
  Leave(node, 0);
  Leave(node, 1);
  EXPECT_THAT(node.Take(), IsEmpty());
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kStopping);
}

TEST(SupervisorInPlaceTest, AtTheEndOfTheJobAllAreEnded) {
  SupervisorDriver node;
  RunInPlace(node);
  node.Finish(Outcome::kFailed, 3);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1"));
}

TEST(SupervisorInPlaceTest, AJobThatEndsWhileTheyLeaveWaitsForThem) {
  SupervisorDriver node;
  RunInPlace(node);
  node.Stop(0);
  node.Finish(Outcome::kFailed, 3);
  node.Take();
  Leave(node, 0);
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Advance(seconds(2));
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 1"));
  node.End(1, kTerminated);
  EXPECT_THAT(node.Take(), ElementsAre("Exit 3 failed"));
}

TEST(SupervisorInPlaceTest, ASignalToTheAgentEndsLeavingWorkers) {
  SupervisorDriver node;
  RunInPlace(node);
  node.Stop(0);
  node.Take();
  node.Signal(SIGINT);
  EXPECT_THAT(node.Take(), ElementsAre("SIGINT to 0,1"));
  node.Advance(seconds(2));
  EXPECT_THAT(node.Take(), IsEmpty()) << "they have the whole grace";
}

TEST(SupervisorInPlaceTest, TheEndOfTheLeaseEndsLeavingWorkers) {
  SupervisorDriver node;
  RunInPlace(node);
  node.Advance(seconds(24));
  node.Stop(0);
  node.Take();
  node.Lose();
  node.Live(seconds(60), /*answered=*/false);
  EXPECT_EQ(node.Take().front(), "SIGKILL to 0,1") << "at once, before they are late";
}

TEST(SupervisorInPlaceTest, AHungWorkerIsEndedAndTheOthersLeave) {
  SupervisorDriver node;
  RunInPlace(node);
  node.Receive(0, ddprun::Stop{.reason = "rank 3 hangs", .hung = {LocalRank{1}}});
  EXPECT_THAT(node.Take(), ElementsAre("SIGABRT to 1", "SIGCONT to 1", "ask to leave: 0"));
}

TEST(SupervisorInPlaceTest, WithoutATimeoutNoneIsAsked) {
  SupervisorOptions options = SupervisorDriver::Options();
  options.in_place_timeout = Duration(0);
  SupervisorDriver node(options);
  RunInPlace(node);
  node.Stop(0);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1"));
}

// ---- a node that joins a running job ----

const Waiting kStartStandbys{"the job runs", /*start_standbys=*/true};

TEST(SupervisorStandbysTest, ANewcomerStartsStandbysAndSaysWhenTheyWait) {
  SupervisorDriver node;
  node.Open();
  node.Take();
  node.Receive(-1, kStartStandbys);
  EXPECT_THAT(node.Take(), ElementsAre("start standbys"));
  node.Step(Supervisor::StandbysStarted{});
  EXPECT_THAT(node.Take(), ElementsAre("g-1-> StandbysReady"));
}

// A rendezvous of an earlier version refuses this message, and ends the session.
TEST(SupervisorStandbysTest, OnANewSessionTheAgentAnswersOnlyIfItIsAsked) {
  SupervisorDriver node;
  node.Open();
  node.Receive(-1, kStartStandbys);
  node.Step(Supervisor::StandbysStarted{});
  node.Lose();
  node.Take();
  node.Open();
  EXPECT_THAT(node.TakeText(), Not(HasSubstr("StandbysReady")));
  node.Receive(-1, kStartStandbys);
  EXPECT_THAT(node.Take(), ElementsAre("g-1-> StandbysReady")) << "and starts none again";
}

TEST(SupervisorStandbysTest, ANodeWithRanksStartsNoStandbys) {
  SupervisorDriver node;
  node.Run();
  node.Take();
  node.Receive(0, kStartStandbys);
  node.Step(Supervisor::StandbysStarted{});
  EXPECT_THAT(node.Take(), IsEmpty());
}

TEST(SupervisorStandbysTest, HeartbeatsSayThatTheProgramCanStandBy) {
  SupervisorDriver node;
  node.Run();
  node.Advance(seconds(1));
  EXPECT_FALSE(node.heartbeats().back().can_stand_by);
  node.Step(Supervisor::WorkerCanStandBy{});
  node.Advance(seconds(1));
  EXPECT_TRUE(node.heartbeats().back().can_stand_by);
}

}  // namespace supervisor_in_place_test
}  // namespace ddprun
