// Rules of JobMachine that are easy to get wrong: the code broke each of them once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/machine/job_machine.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace job_machine_review_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(JobMachineLeaseTest, AgentsOfOneJobHaveOneLease) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2));
  job.Join('a');
  job.Clear();
  JobSpec longer = job.spec();
  longer.lease = seconds(60);
  job.Receive('b', Join{longer, {"b", "10.0.0.b", 2}, 1}, Generation{-1});
  EXPECT_THAT(
      job.Take(),
      ElementsAre(HasSubstr("b<-g-1 Refused: lease is 60 s here, but the job began with 3 s")));
  JobSpec short_lease = job.spec();
  short_lease.lease = short_lease.heartbeat;
  job.Receive('c', Join{short_lease, {"c", "10.0.0.c", 2}, 1}, Generation{-1});
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("is less than three heartbeats")));
}

TEST(JobMachineGenerationTest, AMadeUpGenerationIsRefused) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2, 3));
  job.RunTwoNodes();
  job.Rejoin('x', 1'000'000'000, false);
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("x<-g1000000000 Refused")));
}

// Fails if NextDeadline() includes generation_.growth after it has passed and nobody is taken in
// any more: the rendezvous would step this job all the time.
TEST(JobMachineGrowthTest, NobodyIsCalledForATimeThatIsOver) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 4), JobMachineOptions{.leases = false});
  job.Join('a');
  job.Join('b');
  job.Advance(seconds(5));
  job.Prepare('a');
  job.Prepare('b');
  job.Join('c');
  ASSERT_EQ(job.machine().NextDeadline(), job.now() + seconds(5)) << "the last call for newcomers";
  job.Exit('a', 0, 0, {});  // from now on the others are not stopped for a newcomer
  job.Advance(seconds(5));
  EXPECT_EQ(job.machine().NextDeadline(), std::nullopt);
}

TEST(JobMachineSpareTest, ASpareThatComesBackDoesNotBeginAFinishedJobAnew) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1));
  job.Join('a');
  job.Prepare('a');
  for (const int rank : {0, 1}) job.Exit('a', rank, rank, {});
  ASSERT_TRUE(job.machine().finished());
  const Header spare{"job", 0, Generation{-1}, AgentId{'s'}};
  Join join{job.spec(), {"s", "10.0.0.s", 2}, 1};
  EXPECT_TRUE(job.machine().BeginsAnother(spare, join)) << "somebody uses the name again";
  join.returning = true;
  EXPECT_FALSE(job.machine().BeginsAnother(spare, join));
  job.Clear();
  job.Receive('s', join, Generation{-1});
  EXPECT_THAT(job.Take(), ElementsAre("s<-g-1 Finished 0"));
}

TEST(JobMachineSpareTest, AnExtraAgentThatLeavesDoesNotEndAJobWhoseMembersAreSilent) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2));
  job.RunTwoNodes();
  job.Join('s');
  job.Advance(seconds(2));
  job.Beat('s');
  job.Advance(seconds(1));  // a and b are lost
  job.Leave('s');
  EXPECT_FALSE(job.machine().finished());
  job.Rejoin('a', 0, false);
  job.Rejoin('b', 0, false);
  EXPECT_EQ(job.machine().state(), JobState::kForming);
}

TEST(JobMachineOperatorTest, AStopThatWasAcceptedOutlivesTheDaemon) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 3));
  job.RunTwoNodes();
  job.AskStop(false);
  ASSERT_TRUE(job.record()->plan.has_value());
  EXPECT_TRUE(job.record()->plan->stop);
  job.RestartDaemon(seconds(1));
  job.Clear();
  job.Rejoin('a', 0, true);
  EXPECT_THAT(job.Take(), Contains("a<-g0 Stop"));
  job.Rejoin('b', 0, true);
  job.Drain('a');
  job.Drain('b');
  EXPECT_EQ(job.last_finished().exit_code, 143);
  EXPECT_TRUE(job.machine().finished());
}

TEST(JobMachineOperatorTest, ADrainThatWasAcceptedOutlivesTheDaemon) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2, 3));
  job.RunTwoNodes();
  job.AskDrain("b");
  job.RestartDaemon(seconds(1));
  job.Rejoin('a', 0, true);
  job.Rejoin('b', 0, true);
  EXPECT_EQ(job.machine().state(), JobState::kSaving);
  job.Checkpoint('a', 7);
  job.Drain('a');
  job.Clear();
  job.Drain('b');
  EXPECT_THAT(job.Take(), ElementsAre("b<-g0 Finished 75", HasSubstr("a<-g1 Assignment node 0/1")));
}

TEST(JobMachineRecordTest, AnAgentOfALaterGenerationThanTheRecordEndsTheRecordedOne) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 3));
  job.RunTwoNodes();
  job.RestartDaemon(seconds(1));  // with a record of generation 0
  job.Rejoin('a', 3, true);
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("a<-g3 Fenced")));
  job.Rejoin('a', 3, false);
  job.Rejoin('b', 3, false);
  EXPECT_THAT(job.Take(), Contains(HasSubstr("a<-g4 Assignment node 0/2")));
}

TEST(JobMachineGrowthTest, NewcomersToARunningJobHaveALastCallWhileItGoesOn) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 4));
  job.Join('a');
  for (int second = 0; second < 5; ++second) {
    job.Beat('a');
    job.Advance(seconds(1));
  }
  job.Prepare('a');
  job.Join('b');
  job.Clear();
  for (int second = 0; second < 4; ++second) {
    job.Advance(seconds(1));
    for (const char agent : {'a', 'b'}) job.Beat(agent);
    if (second == 1) job.Join('c');
    if (second >= 1) job.Beat('c');
    EXPECT_EQ(job.machine().state(), JobState::kRunning);
  }
  job.Clear();
  job.Advance(seconds(1));
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop"));
  job.Drain('a');
  EXPECT_THAT(job.Take(), Contains(HasSubstr("Assignment node 0/3")));
}

TEST(JobMachineGrowthTest, ItIsAtOnceWhenTheJobHasAllItsNodesThen) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2));
  job.Join('a');
  for (int second = 0; second < 5; ++second) {
    job.Beat('a');
    job.Advance(seconds(1));
  }
  job.Prepare('a');
  job.Clear();
  job.Join('b');
  EXPECT_THAT(job.Take(), Contains("a<-g0 Stop"));
}

TEST(JobMachineForgottenTest, ASpareOfALostDaemonIsNotFormedWhileMembersMayLive) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1));
  Join spare{job.spec(), {"s", "10.0.0.s", 2}, 1};
  spare.returning = true;  // it had an answer from an earlier rendezvous
  job.Receive('s', spare, Generation{-1});
  EXPECT_THAT(job.Take(), Not(Contains(HasSubstr("Assignment"))));
  job.Advance(milliseconds(2999));
  job.Beat('s');
  EXPECT_EQ(job.machine().state(), JobState::kGathering);
  job.Advance(milliseconds(1));
  EXPECT_EQ(job.machine().state(), JobState::kForming);
}

}  // namespace job_machine_review_test
}  // namespace ddprun
