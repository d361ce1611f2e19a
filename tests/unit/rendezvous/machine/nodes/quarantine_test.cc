#include "rendezvous/machine/nodes/quarantine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace quarantine_test {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(QuarantineTest, ANodeIsLeftOutWhenItWasTheCauseSoOftenWithinTheWindow) {
  Quarantine quarantine(3, minutes(10));
  TimePoint now;
  EXPECT_FALSE(quarantine.Count("a", now));
  EXPECT_FALSE(quarantine.Count("b", now += minutes(1)));
  EXPECT_FALSE(quarantine.Count("a", now += minutes(1)));
  EXPECT_FALSE(quarantine.Count("a", now += minutes(9)));  // the first of a is too old
  EXPECT_FALSE(quarantine.Excludes("a"));
  EXPECT_TRUE(quarantine.Count("a", now += seconds(30)));
  EXPECT_TRUE(quarantine.Excludes("a"));
  EXPECT_FALSE(quarantine.Excludes("b"));
  EXPECT_FALSE(quarantine.Count("a", now));  // once
  EXPECT_THAT(quarantine.hosts(), ElementsAre("a"));
}

TEST(QuarantineTest, ALimitOf0LeavesNobodyOut) {
  Quarantine quarantine(0, minutes(10));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(quarantine.Count("a", TimePoint()));
  EXPECT_THAT(quarantine.Record(TimePoint()).blames, IsEmpty());
}

TEST(QuarantineTest, ItsRecordGoesOnWhereItWas) {
  Quarantine quarantine(2, minutes(10));
  const TimePoint now{};
  quarantine.Count("a", now);
  quarantine.Count("b", now);
  quarantine.Count("b", now + minutes(1));
  const QuarantineRecord record = quarantine.Record(now + minutes(2));
  Quarantine restarted(2, minutes(10), record, now + minutes(60));
  EXPECT_TRUE(restarted.Excludes("b"));
  EXPECT_EQ(restarted.Record(now + minutes(60)), record);
  EXPECT_TRUE(restarted.Count("a", now + minutes(61)));
}

TEST(QuarantineTest, WhatItRemembersIsBounded) {
  Quarantine quarantine(2000, minutes(10));
  for (int i = 0; i < 3000; ++i) EXPECT_FALSE(quarantine.Count("a", TimePoint()));
  EXPECT_EQ(quarantine.Record(TimePoint()).blames.size(), Quarantine::kMaxBlames);
  Quarantine strict(1, minutes(10));
  for (int i = 0; i < 100; ++i) strict.Count(absl::StrCat("n", i), TimePoint());
  EXPECT_EQ(strict.hosts().size(), Quarantine::kMaxHosts);
}

TEST(QuarantineTest, HangsAreCountedApartAndLeaveNobodyOutByThemselves) {
  Quarantine quarantine(2, minutes(10));
  quarantine.CountHang("a");
  quarantine.CountHang("b");
  quarantine.CountHang("a");
  EXPECT_EQ(quarantine.HangsOf("a"), 2);
  EXPECT_EQ(quarantine.HangsOf("c"), 0);
  EXPECT_FALSE(quarantine.Excludes("a"));
  EXPECT_FALSE(quarantine.Count("a", TimePoint())) << "a hang is no failure";
  const Quarantine restarted(2, minutes(10), quarantine.Record(TimePoint()), TimePoint());
  EXPECT_EQ(restarted.HangsOf("a"), 2);
  EXPECT_EQ(restarted.HangsOf("b"), 1);
}

TEST(QuarantineTest, TheHangsThatItRemembersAreBounded) {
  Quarantine quarantine(2, minutes(10));
  for (int i = 0; i < 3000; ++i) quarantine.CountHang("a");
  EXPECT_EQ(quarantine.Record(TimePoint()).hangs.size(), Quarantine::kMaxBlames);
}

// ---- in a JobMachine ----

JobSpec Spec(int min, int max, int all_nodes) {
  JobSpec spec = JobMachineDriver::Spec(min, max, 10);
  spec.quarantine = 2;
  spec.all_nodes = all_nodes;
  return spec;
}

// A worker of `agent`, whose first rank is `rank`, fails, and all present nodes stop.
void Fail(JobMachineDriver& job, char agent, int rank, const std::string& agents) {
  job.Exit(agent, rank, 0, {3, 0, false});
  for (const char other : agents) job.Drain(other, 4);
  for (const char other : agents) job.Prepare(other);
}

TEST(JobMachineQuarantineTest, TheNodeIsDismissedWithTheReasonAndASpareTakesItsPlace) {
  JobMachineDriver job(Spec(2, 2, 3));
  job.RunTwoNodes();
  job.Join('c');
  Fail(job, 'b', 2, "ab");
  job.Clear();
  job.Exit('b', 2, 0, {3, 0, false});
  job.Drain('a', 6);
  job.Drain('b', 6);
  EXPECT_THAT(job.TakeText(), HasSubstr("c<-g2 Assignment"));
  EXPECT_EQ(job.last_finished().outcome, Outcome::kLeft);
  EXPECT_EQ(
      job.last_finished().reason,
      "b was left out: its workers were the root cause 2 times within 3600 s; the job goes on "
      "without it");
  EXPECT_THAT(job.last_finished().excluded, ElementsAre("b"));
  // A new agent on the host is refused, too.
  job.Clear();
  job.Join('b');
  EXPECT_THAT(job.TakeText(), HasSubstr("Refused"));
}

TEST(JobMachineQuarantineTest, WithTooFewLeftForGoodTheJobEndsAtOnceToBeRunAgain) {
  JobMachineDriver job(Spec(2, 2, 2));
  job.RunTwoNodes();
  Fail(job, 'b', 2, "ab");
  job.Checkpoint('a', 40);
  job.Exit('b', 2, 0, {3, 0, false});
  job.Drain('a', 41);
  job.Drain('b', 41);
  EXPECT_TRUE(job.machine().finished());
  EXPECT_EQ(job.last_finished().outcome, Outcome::kPreempted);
  EXPECT_EQ(job.last_finished().exit_code, 75);
  EXPECT_EQ(job.last_finished().reason,
            "b is left out, for its workers were the root cause 2 times within 3600 s, and 1 node "
            "of at least 2 remains; the last checkpoint is of step 40");
  EXPECT_THAT(job.last_finished().excluded, ElementsAre("b"));
}

TEST(JobMachineQuarantineTest, WithoutACheckpointItHasFailed) {
  JobMachineDriver job(Spec(2, 2, 2));
  job.RunTwoNodes();
  Fail(job, 'b', 2, "ab");
  job.Exit('b', 2, 0, {3, 0, false});
  job.Drain('a', 5);
  job.Drain('b', 5);
  EXPECT_EQ(job.last_finished().outcome, Outcome::kFailed);
  EXPECT_EQ(job.last_finished().exit_code, 3);
}

TEST(JobMachineQuarantineTest, WhereOthersMayComeTheJobWaitsForThem) {
  JobMachineDriver job(Spec(2, 2, 0));
  job.RunTwoNodes();
  Fail(job, 'b', 2, "ab");
  job.Exit('b', 2, 0, {3, 0, false});
  job.Drain('a', 5);
  job.Drain('b', 5);
  EXPECT_FALSE(job.machine().finished());
  EXPECT_EQ(job.machine().state(), JobState::kGathering);
}

// ---- unfit nodes ----

void JoinUnfit(JobMachineDriver& job, char agent, std::vector<SavedState> states = {}) {
  Join join{job.spec(), {std::string(1, agent), "10.0.0.9", 2}, 1};
  join.why_ineligible = "preflight: shm: 0 MiB are free";
  join.states = std::move(states);
  job.Receive(agent, join, Generation{-1});
}

// The unfit node is recorded between two generations. This record must keep the members of the job.
TEST(JobMachineUnfitTest, ARendezvousThatRestartsAfterALateOneGoesOnWithTheJob) {
  JobMachineDriver job(Spec(2, 2, 3));
  job.RunTwoNodes();
  job.Gone('b');
  job.Drain('a', 5);
  ASSERT_EQ(job.machine().state(), JobState::kGathering);
  JoinUnfit(job, 'c');
  job.RestartDaemon(std::chrono::seconds(1));
  job.Rejoin('a', 0, false);
  EXPECT_FALSE(job.machine().finished()) << job.TakeText();
  job.Drain('a', 5);  // for a cause that other nodes may still report
  job.Advance(std::chrono::seconds(2));
  EXPECT_FALSE(job.machine().finished()) << job.TakeText();
  job.Clear();
  job.Join('d');
  EXPECT_THAT(job.TakeText(), HasSubstr("d<-g1 Assignment"));
}

TEST(JobMachineUnfitTest, ASpareTakesThePlaceOfANodeThatMustStayOut) {
  JobMachineDriver job(Spec(2, 2, 3));
  JoinUnfit(job, 'a');
  EXPECT_EQ(job.TakeText(), "a<-g-1 Finished 69");
  EXPECT_EQ(job.last_finished().outcome, Outcome::kLeft);
  EXPECT_EQ(job.last_finished().reason, "a stays out: preflight: shm: 0 MiB are free");
  EXPECT_THAT(job.last_finished().excluded, ElementsAre("a"));
  const auto events = job.TakeEvents();
  ASSERT_THAT(events, Not(IsEmpty()));
  EXPECT_EQ(events.back().kind, JobEvent::Kind::kLeft);
  EXPECT_NE(events.back().agent_id, AgentId{}) << "of two agents on one host: which one";
  EXPECT_FALSE(job.machine().finished());
  job.Join('b');
  job.Join('c');
  EXPECT_EQ(job.machine().state(), JobState::kForming);
}

TEST(JobMachineUnfitTest, WithTooFewLeftForGoodTheJobEndsWhenAllAreHeard) {
  JobMachineDriver job(Spec(2, 2, 2));
  JoinUnfit(job, 'b');
  EXPECT_EQ(job.TakeText(), "b<-g-1 Finished 69");
  EXPECT_FALSE(job.machine().finished());
  job.Join('a');
  EXPECT_EQ(job.TakeText(), "a<-g-1 Finished 69");
  EXPECT_EQ(job.last_finished().outcome, Outcome::kFailed);
  EXPECT_EQ(job.last_finished().reason,
            "b is left out, for it is not fit (preflight: shm: 0 MiB are free), and 1 node of at "
            "least 2 remains");
  EXPECT_EQ(job.machine().awaited(), 0);
}

TEST(JobMachineUnfitTest, AJobThatCanBeginWithAStateIsToBeRunAgainElsewhere) {
  JobMachineDriver job(Spec(2, 2, 2), {}, 1);
  Join join{job.spec(), {"a", "10.0.0.1", 2}, 1};
  join.states = {{0, Generation{0}, 40, Tier::kDurable}};
  job.Receive('a', join, Generation{-1});
  JoinUnfit(job, 'b');
  EXPECT_EQ(job.last_finished().outcome, Outcome::kPreempted);
  EXPECT_THAT(job.last_finished().reason, HasSubstr("; the last checkpoint is of step 40"));
  EXPECT_THAT(job.last_finished().excluded, ElementsAre("b"));
}

// Other nodes would not be fit either.
TEST(JobMachineUnfitTest, WhereNoNodeIsFitTheJobHasFailed) {
  const SavedState state{0, Generation{0}, 40, Tier::kDurable};
  JobMachineDriver job(Spec(2, 2, 2), {}, 1);
  JoinUnfit(job, 'a', {state});
  JoinUnfit(job, 'b', {state});
  EXPECT_TRUE(job.machine().finished());
  EXPECT_EQ(job.last_finished().exit_code, 69);
  EXPECT_NE(job.last_finished().outcome, Outcome::kPreempted);
}

// Slurm does not know that the node is gone, so only a new run gets another node.
TEST(JobMachineLateTest, WhoWaitedInVainIsToBeRunAgainWhereThereIsAState) {
  for (const int all_nodes : {0, 2}) {
    JobMachineOptions options;
    options.leases = false;
    JobMachineDriver job(Spec(2, 2, all_nodes), options);
    job.RunTwoNodes();
    job.Checkpoint('a', 40);
    job.Gone('b');
    job.Drain('a', 41);
    EXPECT_EQ(job.machine().state(), JobState::kGathering);
    job.Advance(job.spec().join_timeout);
    EXPECT_EQ(job.last_finished().outcome,
              all_nodes == 0 ? Outcome::kUnreachable : Outcome::kPreempted);
    EXPECT_THAT(job.last_finished().reason, HasSubstr("only 1 of at least 2 nodes joined within"));
  }
}

TEST(JobMachineUnfitTest, WhereNodesComeAndGoTheWaitNamesIt) {
  const JobSpec spec = Spec(2, 2, 0);
  JobMachineOptions options;
  options.leases = false;
  JobMachineDriver job(spec, options);
  JoinUnfit(job, 'a');
  job.Join('b');
  EXPECT_FALSE(job.machine().finished());
  job.Clear();
  job.Advance(spec.join_timeout);
  EXPECT_THAT(job.last_finished().reason, HasSubstr("gone: a (preflight: shm: 0 MiB are free)"));
}

TEST(JobMachineUnfitTest, WhereNodesComeAndGoItMayComeAgain) {
  JobMachineDriver job(Spec(2, 2, 0));
  JoinUnfit(job, 'a');
  job.Join('b');
  job.Join('a');
  EXPECT_EQ(job.machine().state(), JobState::kForming);
}

// A short job may end before its slowest spare joins.
TEST(JobMachineLateTest, AnAgentThatComesTooLateToAJobThatKnowsItsNodesHearsOfItsEnd) {
  JobMachineDriver job(Spec(2, 2, 3));
  job.RunTwoNodes();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(job.machine().awaited(), 0);
    job.Exit(rank < 2 ? 'a' : 'b', rank, rank % 2, {});
  }
  EXPECT_EQ(job.machine().awaited(), 1);
  job.Clear();
  job.Join('c');
  EXPECT_EQ(job.TakeText(), "c<-g0 Finished 0");
  EXPECT_EQ(job.machine().awaited(), 0);
  const Header late{"job", 0, Generation{-1}, AgentId{'d'}};
  Join join;
  join.job = job.spec();
  EXPECT_FALSE(job.machine().BeginsAnother(late, join));
  join.job.all_nodes = 0;
  EXPECT_TRUE(job.machine().BeginsAnother(late, join));
}

TEST(JobMachineQuarantineTest, ARestartedDaemonKeepsTheNodeOut) {
  JobMachineDriver job(Spec(1, 2, 2));
  job.RunTwoNodes();
  Fail(job, 'b', 2, "ab");
  job.Exit('b', 2, 0, {3, 0, false});
  job.Drain('a', 5);
  job.Drain('b', 5);
  job.Prepare('a');
  job.RestartDaemon(seconds(1));
  job.Rejoin('a', job.machine().generation().value, true);
  job.Clear();
  job.Join('b');
  EXPECT_THAT(job.TakeText(), HasSubstr("Refused"));
}

}  // namespace quarantine_test
}  // namespace ddprun
