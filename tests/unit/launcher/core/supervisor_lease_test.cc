// The agent's side of leases: docs/internals/leases.md. The lease is 3 s, the heartbeat 1 s. The
// agent fences itself 2.5 s after it sent the newest message that was answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "launcher/core/lease.h"
#include "launcher/core/supervisor.h"
#include "tests/unit/launcher/core/supervisor_driver.h"

namespace ddprun {
namespace supervisor_lease_test {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ExitStatus kKilled{0, SIGKILL, false};
constexpr milliseconds kFence{2500};
constexpr milliseconds kTick{1};

SupervisorOptions Leased() {
  SupervisorOptions options = SupervisorDriver::Options();
  options.spec.heartbeat = seconds(1);
  options.spec.lease = seconds(3);
  return options;
}

class SupervisorLeaseTest : public testing::Test {
 protected:
  SupervisorDriver node{Leased()};  // connected at `begin`
  const TimePoint begin = node.now();

  void Running() {
    node.Run();
    node.Take();
  }
  void KillAll() {
    node.End(0, kKilled);
    node.End(1, kKilled);
  }
};

TEST(LeaseTest, TheArithmeticIsTheDocumentedOne) {
  EXPECT_EQ(FenceMargin(seconds(3)), milliseconds(500));
  EXPECT_EQ(FenceTime(TimePoint{seconds(10)}, seconds(3)), TimePoint{milliseconds(12'500)});
  EXPECT_EQ(BackstopDelay(seconds(3)), milliseconds(100));
  for (const Duration lease : {Duration(milliseconds(30)), Duration(std::chrono::hours(1))}) {
    EXPECT_LT(FenceTime(TimePoint{}, lease) + BackstopDelay(lease), TimePoint{lease});
  }
}

TEST_F(SupervisorLeaseTest, HeartbeatsCarryTheTimeAndTheNewestStep) {
  node.Live(seconds(2), true);
  ASSERT_EQ(node.heartbeats().size(), 2u);
  EXPECT_EQ(TimePoint(std::chrono::nanoseconds(node.heartbeats()[0].sent_at)), begin + seconds(1));
  EXPECT_EQ(node.heartbeats()[1].step, std::nullopt);
  Running();
  node.Step(Supervisor::StepReported{LocalRank{0}, 4});
  node.Step(Supervisor::StepReported{LocalRank{1}, 5});
  node.Live(seconds(1), true);
  EXPECT_EQ(node.heartbeats().back().step, 5);
}

TEST_F(SupervisorLeaseTest, AnswersKeepTheWorkersRunning) {
  Running();
  node.Live(minutes(10), true);
  EXPECT_THAT(node.Take(), IsEmpty());
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kRunning);
}

TEST_F(SupervisorLeaseTest, ASilenceThatIsShorterThanTheLeaseChangesNothing) {
  Running();
  node.Live(kFence - kTick, false);
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Acknowledge();  // answers the heartbeat at 2 s
  node.Live(seconds(2), false);
  EXPECT_THAT(node.Take(), IsEmpty());
}

TEST_F(SupervisorLeaseTest, ALongerSilenceKillsTheWorkersWithoutGraceBeforeTheLeaseIsOver) {
  Running();
  node.Live(kFence, false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kFenced);
  EXPECT_LT(node.now(), begin + seconds(3)) << "the rendezvous keeps its ranks until then";
  KillAll();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join", "g0-> AssignmentAck", "g0-> Stopped, fenced"));
  EXPECT_GT(node.last_stopped().fenced_at_ms, 0);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
  EXPECT_THAT(node.TakeNotes(), Contains(HasSubstr("was not heard for 2.5 s")));
}

// Seen red when OnHeartbeatAck took the time of the answer.
TEST_F(SupervisorLeaseTest, TheLeaseRunsFromWhenTheHeartbeatWasSentNotFromItsAnswer) {
  Running();
  node.Live(milliseconds(2400), false);
  node.Acknowledge(node.heartbeats().front().sent_at);  // sent at 1 s: fenced at 3.5 s
  node.Live(milliseconds(1100) - kTick, false);
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Live(kTick, false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
}

TEST_F(SupervisorLeaseTest, AnAnswerFromTheFutureIsNotBelieved) {
  Running();
  node.Acknowledge((node.now() + minutes(1)).time_since_epoch() / std::chrono::nanoseconds(1));
  node.Live(kFence, false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
}

// Seen red when the Supervisor handled the event before it looked at the clock.
TEST_F(SupervisorLeaseTest, AnAgentThatSleptThroughItsLeaseTrustsNothingThatWaitedForIt) {
  Running();
  node.Live(milliseconds(1500), false);
  node.Sleep(seconds(3));
  node.Acknowledge();
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
}

TEST_F(SupervisorLeaseTest, AWorkerThatTheGuardianKilledIsNoFailureOfTheJob) {
  Running();
  node.Sleep(seconds(3));
  KillAll();
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1", "g0-> Join", "g0-> AssignmentAck",
                                       "g0-> Stopped, fenced"));
}

TEST_F(SupervisorLeaseTest, AStartIsNotObeyedWhenTheLeaseIsOver) {
  node.Assign(0);
  node.Take();
  node.Sleep(kFence);
  node.Start(0);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join", "g0-> AssignmentAck", "g0-> Stopped"));
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
}

TEST_F(SupervisorLeaseTest, WorkersThatHaveTheirGraceAreKilledWhenTheLeaseIsOver) {
  Running();
  node.Stop(0);
  node.Live(kFence, false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1", "SIGKILL to 0,1"));
}

TEST_F(SupervisorLeaseTest, ALeavingAgentKeepsToItsLeaseToo) {
  Running();
  node.Signal(SIGTERM);
  node.Live(kFence, false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1", "SIGKILL to 0,1"));
  KillAll();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Leave 143", "Exit 143 left"));
}

TEST_F(SupervisorLeaseTest, AfterTheJobsEndThereIsNoLeaseToKeep) {
  Running();
  node.Finish(Outcome::kFailed, 3);
  EXPECT_EQ(node.fence(), std::nullopt);
  node.Live(seconds(9), false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1")) << "they have their whole grace";
}

TEST_F(SupervisorLeaseTest, WorkersThatTakeLongerThanTheLeaseToStartAreKilledBeforeTheyRun) {
  node.Assign(0);
  node.SpawnSlowly(seconds(2));  // the first worker starts after 2 s, the second after 4 s
  node.Take();
  node.Start(0);
  EXPECT_THAT(node.Take(), ElementsAre("Spawn g0", "SIGKILL to 0,1"));
  KillAll();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join", "g0-> AssignmentAck", "g0-> Stopped, fenced"));
}

// ---- sessions that break ----

TEST_F(SupervisorLeaseTest, ABrokenSessionThatIsReplacedWithinTheLeaseRestartsNothing) {
  Running();
  node.Step(Supervisor::StepReported{LocalRank{0}, 7});
  node.End(1);
  node.Take();
  node.Lose();
  node.Live(seconds(2), false);
  node.Open();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join, running", "g0-> WorkerExited 3 exit code 0"));
  node.Start(0);  // the rendezvous repeats what may have been lost
  node.Assign(0);
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Live(minutes(1), true);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kRunning);
}

TEST_F(SupervisorLeaseTest, ANewSessionIsAContactOnlyWhenItIsAnswered) {
  Running();
  node.Lose();
  node.Live(seconds(2), false);
  node.Open();
  node.Live(milliseconds(500) - kTick, false);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join, running"));
  node.Start(0);  // answers the Join of 2 s: the lease runs from there
  node.Live(seconds(2), false);
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Live(kTick, false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
}

TEST_F(SupervisorLeaseTest, WhatWasSaidWithoutASessionIsSaidOnTheNext) {
  Running();
  node.Lose();
  node.End(0, ExitStatus{3, 0, false});
  node.End(1, kKilled);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 1"));
  node.Open();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join", "g0-> AssignmentAck",
                                       "g0-> WorkerExited 2 exit code 3", "g0-> Stopped"));
  EXPECT_EQ(node.last_stopped().fenced_at_ms, 0);
}

TEST_F(SupervisorLeaseTest, WhatBelongsToAnEarlierGenerationIsNotSaidAgain) {
  Running();
  node.End(0, ExitStatus{3, 0, false});
  node.End(1, kKilled);
  node.Assign(1);
  node.Take();
  node.Lose();
  node.Open();
  EXPECT_THAT(node.Take(), ElementsAre("g1-> Join", "g1-> AssignmentAck"));
}

TEST_F(SupervisorLeaseTest, AnAgentThatIsCutOffFencesItselfAndJoinsAgainWhenItIsBack) {
  Running();
  node.Lose();
  node.Live(kFence, false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  KillAll();
  EXPECT_THAT(node.Take(), IsEmpty()) << "nobody hears it";
  node.Live(seconds(20), false);
  node.Open();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join", "g0-> AssignmentAck", "g0-> Stopped, fenced"));
  node.Assign(1);
  node.Start(1);
  EXPECT_THAT(node.Take(), ElementsAre("g1-> AssignmentAck", "Spawn g1"));
}

// The network was cut for a while, and the session survived. Seen red when the agent did not ask
// for an answer first: it took the assignment, fenced itself at once because of the old silence,
// and so broke the new generation.
TEST_F(SupervisorLeaseTest, AfterASilenceAnAssignmentIsTakenWhenAHeartbeatIsAnswered) {
  Running();
  node.Live(kFence, false);
  KillAll();
  node.Take();
  node.Live(seconds(2), false);
  const std::size_t heartbeats = node.heartbeats().size();
  node.Assign(1);
  EXPECT_THAT(node.Take(), IsEmpty()) << "there is no lease to prepare anything under";
  ASSERT_EQ(node.heartbeats().size(), heartbeats + 1) << "asked at once";
  node.Acknowledge(node.heartbeats().front().sent_at);
  EXPECT_THAT(node.Take(), IsEmpty()) << "from before the silence";
  node.Acknowledge();
  EXPECT_THAT(node.Take(), ElementsAre("g1-> AssignmentAck"));
  node.Start(1);
  EXPECT_THAT(node.Take(), ElementsAre("Spawn g1"));
  node.Live(kFence - kTick, false);
  EXPECT_THAT(node.Take(), IsEmpty());
}

TEST_F(SupervisorLeaseTest, AnAssignmentFromBeforeTheSilenceIsForgottenWithTheMembership) {
  node.Live(seconds(4), false);
  node.Take();
  node.Assign(0);
  node.Receive(-1, Fenced{"not counted on"});
  EXPECT_THAT(node.Take(), ElementsAre("g-1-> Join"));
  node.Acknowledge();
  EXPECT_THAT(node.Take(), IsEmpty()) << "it belonged to what was before the Join";
  node.Assign(1);
  EXPECT_THAT(node.Take(), ElementsAre("g1-> AssignmentAck"));
}

TEST_F(SupervisorLeaseTest, ASessionThatOpensWhileFencedWorkersDieBeginsWhenTheyAreGone) {
  Running();
  node.Lose();
  node.Live(kFence, false);
  node.Open();
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  KillAll();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join", "g0-> AssignmentAck", "g0-> Stopped, fenced"));
}

TEST_F(SupervisorLeaseTest, AWordOfASessionThatIsOverIsDropped) {
  Running();
  node.Lose();
  node.Stop(0);
  node.Acknowledge(node.now().time_since_epoch() / std::chrono::nanoseconds(1));
  EXPECT_THAT(node.Take(), IsEmpty());
}

// ---- refused connections ----

TEST_F(SupervisorLeaseTest, ARefusedConnectionFreezesTheLeaseAndSilenceDoesNot) {
  Running();
  node.Lose();
  for (int i = 0; i < 15; ++i) {
    node.Live(seconds(1), false);
    node.BeRefused();
  }
  EXPECT_THAT(node.Take(), IsEmpty()) << "15 s without a rendezvous";
  node.Live(seconds(1), false);
  node.Lose();  // an attempt to connect without an answer
  node.Live(milliseconds(1500) - kTick, false);
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Live(kTick, false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
}

// Seen red when OnSessionLost took the time of the refusal.
TEST_F(SupervisorLeaseTest, ARefusalCountsFromTheBeginningOfTheAttempt) {
  Running();
  node.Lose();
  node.Live(seconds(2), false);
  node.BeRefused(seconds(1));  // begun at 1 s: fenced at 3.5 s
  node.Live(milliseconds(1500) - kTick, false);
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Live(kTick, false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
}

TEST_F(SupervisorLeaseTest, WithoutARendezvousForLongerThanTheGraceTheAgentGivesUp) {
  Running();
  node.Lose();
  for (int i = 0; i < 299; ++i) {
    node.Live(seconds(1), false);
    node.BeRefused();
  }
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Live(seconds(1), false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  KillAll();
  EXPECT_THAT(node.Take(), ElementsAre("Exit 69 unreachable"));
  EXPECT_EQ(node.verdict().reason, "connection refused; gave up after 300 s");
}

TEST_F(SupervisorLeaseTest, SessionsThatSayNothingDoNotProlongTheGrace) {
  Running();
  node.Lose();
  for (int i = 0; i < 300; ++i) {
    node.BeRefused();
    node.Live(milliseconds(500), false);
    node.Open();
    node.Lose();
    node.Live(milliseconds(500), false);
  }
  KillAll();
  EXPECT_EQ(node.verdict().outcome, Outcome::kUnreachable);
}

TEST_F(SupervisorLeaseTest, BeforeTheFirstWordTheTimeForConnectingHolds) {
  SupervisorOptions options = Leased();
  options.connect_timeout = seconds(10);
  options.rendezvous = "the rendezvous at h:1";
  SupervisorDriver early(options);
  early.Lose();
  early.Live(seconds(10) - kTick, false);
  EXPECT_FALSE(early.supervisor().ended());
  early.BeRefused();
  early.Live(kTick, false);
  EXPECT_EQ(early.verdict().exit_code, 69);
  EXPECT_EQ(early.verdict().reason, "connection refused; gave up after 10 s");
}

TEST_F(SupervisorLeaseTest, BeforeTheFirstWordTheAgentSaysAfterASecondWhatItWaitsFor) {
  SupervisorOptions options = Leased();
  options.connect_timeout = seconds(60);
  options.rendezvous = "the rendezvous at h:1";
  options.unreachable_hint = "look at both ports";
  SupervisorDriver early(options);
  early.BeRefused();
  early.TakeNotes();
  early.Live(seconds(1) - kTick, false);
  EXPECT_THAT(early.TakeNotes(), IsEmpty());
  early.Live(seconds(10), false);
  EXPECT_THAT(early.TakeNotes(),
              ElementsAre("waiting for the rendezvous at h:1, at most 60 s; so far: connection "
                          "refused; look at both ports"));
  early.Live(seconds(60), false);
  EXPECT_EQ(early.verdict().reason, "connection refused; gave up after 60 s; look at both ports");
}

TEST_F(SupervisorLeaseTest, AnAgentWhoseSessionIsOpenWaitsForOtherNodesAndSaysNothing) {
  SupervisorDriver joined(Leased());
  joined.TakeNotes();
  joined.Live(seconds(5), false);
  EXPECT_THAT(joined.TakeNotes(), IsEmpty());
}

// ---- the rendezvous fences ----

TEST_F(SupervisorLeaseTest, AnAgentThatTheRendezvousGaveUpKillsItsWorkersAndJoinsAgain) {
  Running();
  node.Receive(0, Fenced{"nothing heard for 3 s"});
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  node.Receive(0, Fenced{"once more"});
  EXPECT_THAT(node.Take(), IsEmpty());
  KillAll();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join", "g0-> AssignmentAck", "g0-> Stopped, fenced"));
  node.Assign(5);
  EXPECT_THAT(node.Take(), ElementsAre("g5-> AssignmentAck"));
}

TEST_F(SupervisorLeaseTest, AnAgentWithoutWorkersThatIsForgottenJoinsAgain) {
  node.Take();
  node.Receive(4, Fenced{"answers another generation"});
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Receive(-1, Fenced{"never heard of you"});
  EXPECT_THAT(node.Take(), ElementsAre("g-1-> Join"));
}

// A message that arrives after the Join may be older than the Join. Only the answer to a heartbeat
// proves contact. Without one, the next assignment would find the lease over again, for ever.
TEST_F(SupervisorLeaseTest, AnAgentThatJoinsAgainOnItsSessionAsksForAnAcknowledgementAtOnce) {
  Running();
  node.Sleep(seconds(3));
  const std::size_t before = node.heartbeats().size();
  KillAll();
  EXPECT_EQ(node.heartbeats().size(), before + 1);
}

TEST_F(SupervisorLeaseTest, ARefusalIsNoContactAndEndsTheGraceOfALeavingAgent) {
  Running();
  node.Signal(SIGTERM);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 0,1"));
  node.Refuse();
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  KillAll();
  EXPECT_THAT(node.Take(), Contains("Exit 143 left"));
}

// Seen in a simulation: the agent was stopped (SIGSTOP) while its workers died.
TEST_F(SupervisorLeaseTest, AWorkerThatWasGivenUpMayEndLater) {
  Running();
  node.Lose();
  node.Live(kFence, false);
  node.Take();
  node.Sleep(seconds(10));  // longer than SIGKILL may take
  KillAll();
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
}

// The rendezvous lost the agent while none of its workers ran, and gave it new ranks.
TEST_F(SupervisorLeaseTest, AnAgentWhoseWorkersHaveAllEndedTakesTheNextAssignment) {
  Running();
  node.End(0);
  node.Assign(1);
  EXPECT_THAT(node.Take(), testing::Not(Contains("g1-> AssignmentAck"))) << "one still runs";
  node.End(1);
  node.Take();
  node.Assign(1);
  node.Start(1);
  EXPECT_THAT(node.Take(), ElementsAre("g1-> AssignmentAck", "Spawn g1"));
}

TEST_F(SupervisorLeaseTest, ASignalToAFencedAgentGivesNoGrace) {
  Running();
  node.Live(kFence, false);
  node.Take();
  node.Signal(SIGTERM);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  KillAll();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Leave 143", "Exit 143 left"));
}

// ---- what the guardian is told ----

TEST_F(SupervisorLeaseTest, TheGuardiansFenceIsALittleBehindTheAgentsAndFollowsTheAnswers) {
  EXPECT_EQ(node.fence(), std::nullopt);
  node.Assign(0);
  EXPECT_EQ(node.fence(), std::nullopt) << "no worker yet";
  node.Start(0);
  EXPECT_EQ(node.fence(), begin + kFence + milliseconds(100));
  node.Live(seconds(1), true);
  EXPECT_EQ(node.fence(), begin + seconds(1) + kFence + milliseconds(100));
  node.End(0);
  node.End(1);
  EXPECT_EQ(node.fence(), std::nullopt) << "no worker any more";
}

TEST_F(SupervisorLeaseTest, WithoutLeasesThereIsNeitherHeartbeatNorFence) {
  SupervisorDriver alone(SupervisorDriver::WithoutLeases());
  alone.Run();
  alone.Live(minutes(10), false);
  EXPECT_TRUE(alone.heartbeats().empty());
  EXPECT_EQ(alone.fence(), std::nullopt);
  EXPECT_EQ(alone.supervisor().state(), SupervisorState::kRunning);
}

}  // namespace supervisor_lease_test
}  // namespace ddprun
