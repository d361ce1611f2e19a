#include "launcher/core/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/launcher/core/supervisor_driver.h"

namespace ddprun {
namespace supervisor_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ExitStatus kKilled{0, SIGKILL, false};
constexpr ExitStatus kTerminated{0, SIGTERM, false};

TEST(SupervisorTest, SpawnsOnlyWhenTheRendezvousSaysStart) {
  SupervisorDriver node;
  EXPECT_THAT(node.Take(), ElementsAre("g-1-> Join"));
  node.Assign(0);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> AssignmentAck"));
  node.Start(0);
  EXPECT_THAT(node.Take(), ElementsAre("Spawn g0"));
}

// With --preload the agent imports modules before it connects. Red if GiveUpAt() counts from 0
// then.
TEST(SupervisorTest, ASignalBeforeTheAgentConnectsGivesNothingUp) {
  const TimePoint now = TimePoint() + std::chrono::hours(1);
  Supervisor agent(SupervisorDriver::Options());
  agent.Step(Supervisor::SignalReceived{SIGUSR1, /*durable=*/false}, now);
  EXPECT_EQ(agent.NextDeadline(), std::nullopt);
  agent.Step(Supervisor::Tick{}, now + seconds(1));
  EXPECT_EQ(agent.NextDeadline(), std::nullopt);
  agent.Step(Supervisor::AgentStarted{}, now + seconds(2));
  EXPECT_EQ(agent.NextDeadline(), now + seconds(3)) << "then it logs that it waits";
}

TEST(SupervisorTest, FollowsTheNextAssignmentWhenAFormingIsAbandoned) {
  SupervisorDriver node;
  node.Assign(0);
  node.Assign(1);
  node.Take();
  node.Start(0);
  EXPECT_THAT(node.Take(), IsEmpty()) << "generation 0 never started";
  node.Start(1);
  EXPECT_THAT(node.Take(), ElementsAre("Spawn g1"));
}

TEST(SupervisorTest, AFailureIsReportedAndTheOtherWorkersEndWithoutWaitingForTheRendezvous) {
  SupervisorDriver node;
  node.Run();
  node.Step(Supervisor::StepReported{LocalRank{1}, 120});
  node.Step(Supervisor::ErrorReported{LocalRank{1}, "user", "loss is NaN"});
  node.End(1, kKilled);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> WorkerExited 3 SIGKILL", "SIGTERM to 0"));
  EXPECT_EQ(node.last_exit().pid, 101);
  EXPECT_EQ(node.last_exit().step, 120);
  EXPECT_EQ(node.last_exit().error_kind, "user");
  EXPECT_EQ(node.last_exit().error_text, "loss is NaN");
  EXPECT_THAT(node.last_exit().stderr_tail, ElementsAre("last words"));
  node.End(0, kTerminated);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
}

TEST(SupervisorTest, AVictimDoesNotSilenceTheCause) {
  SupervisorDriver node;
  node.Run();
  node.Step(Supervisor::ErrorReported{LocalRank{0}, "collective", "a peer is gone"});
  node.End(0, ExitStatus{1, 0, false});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> WorkerExited 2 exit code 1"));
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kRunning);
  node.End(1, ExitStatus{5, 0, false});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> WorkerExited 3 exit code 5", "g0-> Stopped"));
}

TEST(SupervisorTest, WhatAWorkerSaidIsForgottenWithItsGeneration) {
  SupervisorDriver node;
  node.Run();
  node.Step(Supervisor::StepReported{LocalRank{0}, 120});
  node.Step(Supervisor::ErrorReported{LocalRank{0}, "user", "old"});
  node.Stop(0);
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  node.Run(1);
  node.End(0, kKilled);
  EXPECT_EQ(node.last_exit().step, std::nullopt);
  EXPECT_EQ(node.last_exit().error_text, "");
}

TEST(SupervisorTest, OwnFailuresAreToldToThePersonOnThisNode) {
  SupervisorDriver node;
  node.Run();
  node.TakeNotes();
  node.End(1, kKilled);
  EXPECT_THAT(node.TakeNotes(), ElementsAre("rank 3 (local rank 1, pid 101) on b: SIGKILL"));
}

TEST(SupervisorTest, ASpareIsToldThatItWaitsAndThatItRanNothing) {
  SupervisorDriver node;
  node.Receive(-1, Waiting{"the job runs"});
  node.Finish(Outcome::kSucceeded, 0);
  EXPECT_THAT(node.TakeNotes(), ElementsAre("the job runs", HasSubstr("has started nothing")));
}

TEST(SupervisorTest, AWorkerThatExitsWithZeroIsReportedAndTheOthersGoOn) {
  SupervisorDriver node;
  node.Run();
  node.End(0);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> WorkerExited 2 exit code 0"));
  node.Live(std::chrono::hours(1), /*answered=*/true);
  EXPECT_THAT(node.Take(), IsEmpty()) << "no timeout on the others' tail";
  node.End(1);
  node.Take();
  node.Finish(Outcome::kSucceeded, 0);
  EXPECT_THAT(node.Take(), ElementsAre("Exit 0 succeeded"));
}

TEST(SupervisorTest, StopEndsTheWorkersWithSigtermAndAfterTheGraceWithSigkill) {
  SupervisorDriver node;
  node.Run();
  node.Stop(0);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1"));
  node.End(0, kTerminated);
  node.Advance(milliseconds(9'999));
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Advance(milliseconds(1));
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 1"));
  node.End(1, kKilled);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
}

// The worker gets SIGCONT, too: while a process is stopped, it does not get other signals.
TEST(SupervisorTest, AWorkerThatHangsGetsItsSignalFirstAndIsKilledWithinTwoSeconds) {
  SupervisorDriver node;
  node.Run();
  node.Receive(0, ddprun::Stop{"rank 3 hangs", {}, {LocalRank{1}}});
  EXPECT_THAT(node.Take(), ElementsAre("SIGABRT to 1", "SIGCONT to 1", "SIGTERM to 0"));
  node.End(0);
  node.Take();
  node.Advance(milliseconds(1900));
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Advance(milliseconds(200));
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 1"));
}

// Seen red where the peers got only the short grace of the rank that hangs.
TEST(SupervisorTest, PeersOfAWorkerThatHangsKeepTheirGrace) {
  SupervisorDriver node;
  node.Run();
  node.Receive(0, ddprun::Stop{"rank 3 hangs", {}, {LocalRank{1}}});
  node.Take();
  node.Advance(seconds(2));
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 1"));
  node.End(1, kKilled);
  node.Take();
  node.Advance(seconds(7));
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Advance(seconds(1));
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0"));
}

TEST(SupervisorTest, AWorkerThatSurvivesSigkillIsNamedAndDoesNotHoldUpTheOthers) {
  SupervisorDriver node;
  node.Run();
  node.Stop(0);
  node.Advance(seconds(10));
  node.End(0, kKilled);
  node.Take();
  node.Advance(seconds(2));
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
  EXPECT_THAT(node.TakeNotes(), Contains(HasSubstr("rank 3 (pid 101) did not end after SIGKILL")));
}

TEST(SupervisorTest, WorkersThatFinishedRunAgainInTheNextGeneration) {
  SupervisorDriver node;
  node.Run();
  node.End(0);
  node.End(1);
  node.Take();
  node.Stop(0);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
  node.Assign(1);
  node.Start(1);
  EXPECT_THAT(node.Take(), ElementsAre("g1-> AssignmentAck", "Spawn g1"));
}

TEST(SupervisorTest, ACommandThatCannotBeExecutedIsReportedAndEndsWhatWasSpawned) {
  SupervisorDriver node;
  node.FailSpawnOf(1);
  node.Assign(0);
  node.Take();
  node.Start(0);
  EXPECT_THAT(node.Take(),
              ElementsAre("Spawn g0", "g0-> WorkerExited 3 exit code 127", "SIGTERM to 0"));
  EXPECT_EQ(node.last_exit().error_kind, "exec");
  EXPECT_EQ(node.last_exit().error_text, "./trian: no such file");
}

TEST(SupervisorTest, AStopWhileWorkersAreBeingStartedIsOverWhenTheLastHasEnded) {
  SupervisorDriver node;
  node.HoldSpawns();
  node.Run();
  node.Spawned(1);
  node.Stop(0);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1"));
  node.End(1, ExitStatus{0, SIGTERM, false});
  EXPECT_THAT(node.Take(), IsEmpty()) << "the other one may still come to run";
  node.Spawned(0);  // the exec has succeeded, or the signal has killed the process before it
  EXPECT_THAT(node.Take(), IsEmpty());
  node.End(0, ExitStatus{0, SIGTERM, false});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
}

TEST(SupervisorTest, WhenOneCannotBeStartedTheOthersBeingStartedAreStopped) {
  SupervisorDriver node;
  node.HoldSpawns();
  node.Run();
  node.SpawnFails(1);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> WorkerExited 3 exit code 127", "SIGTERM to 0"));
  node.SpawnFails(0);  // for the same reason; only the first failure is reported
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
}

TEST(SupervisorTest, AStartThatDoesNotEndAfterSigkillIsNamedAndNotWaitedFor) {
  SupervisorDriver node;
  node.HoldSpawns();
  node.Run();
  node.Spawned(0);
  node.Stop(0);
  node.End(0, ExitStatus{0, SIGTERM, false});
  node.Take();
  node.TakeNotes();
  node.Live(seconds(13), true);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 1", "g0-> Stopped"));
  EXPECT_THAT(node.TakeNotes(),
              ElementsAre("rank 3 (being started) did not end after SIGKILL, and is not waited "
                          "for"));
  node.Spawned(1);
  node.SpawnFails(1);
  EXPECT_THAT(node.Take(), IsEmpty());
}

TEST(SupervisorTest, AUsersSignalGoesToRunningWorkers) {
  SupervisorDriver node;
  node.HoldSpawns();
  node.Run();
  node.Signal(SIGUSR1);
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Spawned(1);
  node.Signal(SIGUSR1);
  EXPECT_THAT(node.Take(), ElementsAre("SIGUSR1 to 1"));
}

TEST(SupervisorTest, TheJobsEndEndsWhatStillRunsAndGivesItsCode) {
  SupervisorDriver node;
  node.Run();
  node.Finish(Outcome::kFailed, 137);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1"));
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  EXPECT_THAT(node.Take(), ElementsAre("Exit 137 failed"));
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kDone);
}

TEST(SupervisorTest, WithoutLeasesASessionThatIsLostIsTheEnd) {
  SupervisorDriver node(SupervisorDriver::WithoutLeases());
  node.Run();
  node.Lose();
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  node.End(0, kKilled);
  node.End(1, kKilled);
  EXPECT_THAT(node.Take(), ElementsAre("Exit 69 unreachable"));
  EXPECT_EQ(node.verdict().reason, "lost the rendezvous");
}

TEST(SupervisorTest, ASessionThatEndsAfterTheVerdictChangesNothing) {
  SupervisorDriver node;
  node.Run();
  node.Finish(Outcome::kFailed, 3);
  node.Lose();
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  EXPECT_EQ(node.verdict().exit_code, 3);
}

TEST(SupervisorTest, AnAgentThatIsRefusedEndsWithTheReason) {
  SupervisorDriver node;
  node.Take();
  node.Refuse();
  EXPECT_THAT(node.Take(), ElementsAre("Exit 77 refused"));
  EXPECT_EQ(node.verdict().reason, "not you");
}

TEST(SupervisorTest, AMemberThatIsRefusedKillsItsWorkersAtOnce) {
  SupervisorDriver node;
  node.Run();
  node.Refuse();
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  node.End(0, kKilled);
  node.End(1, kKilled);
  EXPECT_THAT(node.Take(), ElementsAre("Exit 77 refused"));
}

TEST(SupervisorTest, AStopWhoseStartWasLostIsAnsweredToo) {
  SupervisorDriver node;
  node.Assign(0);
  node.Take();
  node.Stop(0);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
  node.Start(0);
  EXPECT_THAT(node.Take(), IsEmpty()) << "that generation is over";
}

TEST(SupervisorTest, WorkersThatSpeakAreAskedToSaveAndOthersCannotBe) {
  SupervisorDriver node;
  node.Run();
  node.Receive(0, Save{});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> CannotSave"));
  node.Step(Supervisor::WorkerSpoke{LocalRank{1}, true});
  node.Receive(9, Save{});
  EXPECT_THAT(node.Take(), IsEmpty()) << "of another generation";
  node.Receive(0, Save{});
  EXPECT_THAT(node.Take(), ElementsAre("ask 1 to save"));
  node.End(1);
  node.Take();
  node.Receive(0, Save{});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> CannotSave")) << "who could be asked has ended";
}

TEST(SupervisorTest, AWorkerThatTellsOfStepsAloneIsNotAskedToSave) {
  SupervisorDriver node;
  node.Run();
  node.Step(Supervisor::StepReported{LocalRank{0}, 5});
  node.Receive(0, Save{});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> CannotSave"));
}

TEST(SupervisorTest, AWorkerWithoutAFolderIsNotAskedToSave) {
  SupervisorDriver node;
  node.Run();
  for (const int worker : {0, 1}) {
    node.Step(Supervisor::WorkerSpoke{LocalRank{worker}, true});
    node.Step(Supervisor::WorkerSaves{LocalRank{worker}, false});
  }
  node.Receive(0, Save{});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> CannotSave"));
  node.Step(Supervisor::WorkerSaves{LocalRank{0}, true});
  node.Receive(0, Save{});
  EXPECT_THAT(node.Take(), ElementsAre("ask 1 to save"));
  node.Step(Supervisor::CheckpointReported{LocalRank{1}, 5});
  node.Take();
  node.Receive(0, Save{});
  EXPECT_THAT(node.Take(), ElementsAre("ask 2 to save")) << "it has saved one";
}

TEST(SupervisorTest, EachCheckpointIsToldOncePerNode) {
  SupervisorDriver node;
  node.Run();
  node.Step(Supervisor::CheckpointReported{LocalRank{0}, 50});
  node.Step(Supervisor::CheckpointReported{LocalRank{1}, 50});
  node.Step(Supervisor::CheckpointReported{LocalRank{0}, 100});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Checkpointed 50", "g0-> Checkpointed 100"));
  node.Stop(0);
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  node.Run(1);
  node.Step(Supervisor::CheckpointReported{LocalRank{0}, 100});
  EXPECT_THAT(node.Take(), ElementsAre("g1-> Checkpointed 100")) << "of this generation";
}

TEST(SupervisorTest, APlannedStopWithACheckpointIsPreempted) {
  SupervisorDriver node;
  node.Finish(Outcome::kPreempted, 75);
  EXPECT_EQ(node.verdict().outcome, Outcome::kPreempted);
  EXPECT_EQ(node.verdict().exit_code, 75);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kDone);
}

TEST(SupervisorTest, SigtermAndSigintAreForwardedAndTheNodeLeaves) {
  for (const int signo : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) {
    SupervisorDriver node;
    node.Run();
    node.Signal(signo);
    EXPECT_THAT(node.Take(), ElementsAre(SignalName(signo) + " to 0,1"));
    node.End(0, ExitStatus{0, signo, false});
    node.End(1, ExitStatus{0, signo, false});
    EXPECT_THAT(node.Take(), ElementsAre("g0-> Leave " + std::to_string(128 + signo),
                                         "Exit " + std::to_string(128 + signo) + " left"));
  }
}

TEST(SupervisorTest, SigtermOfASchedulerAsksForACheckpointAndWaitsForTheEnd) {
  SupervisorDriver node;
  node.Run();
  node.Step(Supervisor::WorkerSpoke{LocalRank{1}, true});
  node.Signal(SIGTERM);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Preempted"));
  node.Signal(SIGTERM);
  EXPECT_THAT(node.Take(), IsEmpty()) << "the scheduler's, after its wrapper's";
  node.Receive(0, Save{});
  EXPECT_THAT(node.Take(), ElementsAre("ask 1 to save"));
  node.Stop(0);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1"));
  node.End(0, kTerminated);
  node.End(1, kTerminated);
  node.Take();
  node.Finish(Outcome::kPreempted, 75);
  EXPECT_EQ(node.verdict().outcome, Outcome::kPreempted);
  EXPECT_EQ(node.verdict().exit_code, 75);
}

TEST(SupervisorTest, WorkersThatHaveToldOfNoStateAreNotWaitedFor) {
  SupervisorDriver node;
  node.Run();
  node.Step(Supervisor::WorkerSpoke{LocalRank{1}});
  node.Step(Supervisor::StepReported{LocalRank{1}, 7});
  node.Signal(SIGTERM);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1"));
}

TEST(SupervisorTest, WhoIsPreemptedAndHearsNothingLeavesInTime) {
  for (const bool saved_before : {false, true}) {
    SupervisorDriver node(SupervisorDriver::WithoutLeases());
    node.Run();
    node.Step(Supervisor::WorkerSpoke{LocalRank{1}, true});
    if (saved_before) node.Step(Supervisor::CheckpointReported{LocalRank{0}, 50});
    node.Signal(SIGTERM);
    node.Take();
    for (int second = 0; second < 69; ++second) node.Advance(seconds(1));
    EXPECT_EQ(node.supervisor().state(), SupervisorState::kRunning) << "60 s and a grace of 10";
    node.Advance(seconds(1));
    EXPECT_EQ(node.supervisor().state(), SupervisorState::kLeaving);
    node.End(0, kTerminated);
    node.End(1, kTerminated);
    EXPECT_EQ(node.verdict().outcome, saved_before ? Outcome::kPreempted : Outcome::kLeft);
    EXPECT_EQ(node.verdict().exit_code, saved_before ? 75 : 143);
  }
}

// A job that was started again can be preempted before its first step.
TEST(SupervisorTest, WhoIsPreemptedBeforeItsWorkersRunMayGoOnFromWhatIsOnTheDisk) {
  for (const bool durable : {false, true}) {
    SupervisorDriver node;
    node.Step(Supervisor::SignalReceived{SIGTERM, durable});
    EXPECT_EQ(node.verdict().outcome, durable ? Outcome::kPreempted : Outcome::kLeft);
    EXPECT_EQ(node.verdict().exit_code, durable ? 75 : 143);
    EXPECT_TRUE(node.verdict().decided_by_agent);
  }
}

TEST(SupervisorTest, ANodeThatMustStayOutSaysSoAndEndsHoweverTheOthersDo) {
  SupervisorOptions options = SupervisorDriver::Options();
  options.why_ineligible = "preflight: files: too few";
  for (const auto& [outcome, code] : {std::pair(Outcome::kLeft, 69), {Outcome::kSucceeded, 0}}) {
    SupervisorDriver node(options);
    EXPECT_EQ(node.last_join().why_ineligible, "preflight: files: too few");
    node.Take();
    node.Finish(outcome, code);
    EXPECT_EQ(node.verdict().outcome, Outcome::kLeft);
    EXPECT_EQ(node.verdict().exit_code, 69);
    EXPECT_EQ(node.verdict().reason, "b stays out: preflight: files: too few");
    EXPECT_TRUE(node.verdict().decided_by_agent);
  }
}

TEST(SupervisorTest, ASecondSignalEndsTheGrace) {
  SupervisorDriver node;
  node.Run();
  node.Signal(SIGINT);
  node.Take();
  node.Signal(SIGINT);
  node.Signal(SIGTERM);
  EXPECT_THAT(node.Take(), IsEmpty()) << "some senders signal the process and its group";
  node.Advance(seconds(1));
  node.Signal(SIGTERM);
  EXPECT_THAT(node.Take(), IsEmpty()) << "SIGTERM leaves the grace to the workers";
  node.Signal(SIGINT);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  node.End(0, kKilled);
  node.End(1, kKilled);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Leave 130", "Exit 130 left"));
}

TEST(SupervisorTest, UserSignalsGoToTheWorkersAndChangeNothing) {
  SupervisorDriver node;
  node.Run();
  node.Signal(SIGUSR1);
  node.End(0);
  node.Signal(SIGUSR2);
  EXPECT_THAT(node.Take(),
              ElementsAre("SIGUSR1 to 0,1", "g0-> WorkerExited 2 exit code 0", "SIGUSR2 to 1"));
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kRunning);
}

// The rendezvous may give its verdict as soon as the stacks arrive. By then, it must know the
// newest moves of the workers.
TEST(SupervisorTest, BeforeStacksTheRendezvousHearsHowFarTheWorkersAreByNow) {
  SupervisorDriver node;
  node.Run();
  const std::size_t before = node.heartbeats().size();
  node.Receive(0, TakeStacks{StackRequestId{5}});
  node.Step(Supervisor::StepReported{LocalRank{0}, 8});
  EXPECT_THAT(node.Take(), ElementsAre("take stacks of 2 (pid 100),3 (pid 101)"));
  node.Step(Supervisor::WorkerStacksTaken{Generation{0}, StackRequestId{5}, {}});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> StacksTaken 5"));
  ASSERT_EQ(node.heartbeats().size(), before + 1);
  EXPECT_EQ(node.heartbeats().back().step, 8);
}

TEST(SupervisorTest, MessagesForAnotherLifeOfTheAgentAreDropped) {
  SupervisorDriver node;
  node.Run();
  node.Receive(Header{"job", 0, Generation{0}, AgentId{6}}, Stop{"old"});
  node.Receive(Header{"other", 0, Generation{0}, AgentId{7}}, Stop{"old"});
  node.Receive(Header{"job", 1, Generation{0}, AgentId{7}}, Stop{"old"});
  EXPECT_THAT(node.Take(), IsEmpty());
}

}  // namespace supervisor_test
}  // namespace ddprun
