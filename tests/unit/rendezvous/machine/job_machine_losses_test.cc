// Tests JobMachine with nodes that fall silent, leave or are gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/machine/job_machine.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace job_machine_losses_test {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ExitStatus kCode3{3, 0, false};
constexpr ExitStatus kOk{};

TEST(JobMachineTest, PeersThatFailBecauseANodeWasLostSpendNoBudget) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2, 0));
  job.RunTwoNodes();
  job.Break('b');
  job.Exit('a', 0, 0, kCode3, "collective");
  job.Drain('a');
  EXPECT_EQ(job.machine().state(), JobState::kStopping) << "b's workers may still run";
  job.Clear();
  job.Advance(seconds(2));
  job.Beat('a');
  job.Advance(seconds(1));
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("a<-g1 Assignment node 0/1 first 0 world 2")));
  EXPECT_EQ(job.machine().restarts_used(), 0);
}

TEST(JobMachineTest, ASilentNodeIsLostWhenItsLeaseRunsOut) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 0));
  job.RunTwoNodes();
  job.Advance(seconds(2));
  job.Beat('a');
  job.Advance(seconds(1));
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop"));
  job.Beat('b');
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("b<-g0 Fenced: ")));
}

TEST(JobMachineTest, AFinishedNodeMayGoSilentWithoutHarm) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 0));
  job.RunTwoNodes();
  job.Exit('a', 0, 0, kOk);
  job.Exit('a', 1, 1, kOk);
  job.Advance(seconds(2));
  job.Beat('b');
  job.Advance(seconds(1));
  EXPECT_EQ(job.machine().state(), JobState::kRunning);
  EXPECT_EQ(job.machine().NextDeadline(), job.now() + seconds(2)) << "only b's lease is left";
  job.Clear();
  job.Exit('b', 2, 0, kOk);
  job.Exit('b', 3, 1, kOk);
  EXPECT_THAT(job.Take(), ElementsAre("b<-g0 Finished 0"));
}

TEST(JobMachineTest, ANodeLostWhileFormingAbandonsTheFormingAndUsesUpItsNumber) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2));
  job.Join('a');
  job.Join('b');
  job.Prepare('a');
  job.Clear();
  job.Gone('b');
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("a<-g1 Assignment node 0/1")));
  job.Receive('a', AssignmentAck{}, Generation{0});  // sent before the agent got its new assignment
  EXPECT_THAT(job.Take(), IsEmpty());
  job.Prepare('a');
  EXPECT_THAT(job.Take(), ElementsAre("a<-g1 Start"));
}

TEST(JobMachineTest, AnAgentThatDoesNotPrepareIsLost) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2), JobMachineOptions{.leases = false});
  job.Join('a');
  job.Join('b');
  job.Prepare('a');
  job.Clear();
  job.Advance(seconds(30));
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("b<-g0 Fenced: out of the generation: it did not"),
                                      HasSubstr("a<-g1 Assignment node 0/1")));
}

TEST(JobMachineTest, ALeavingNodeEndsTheJobOnlyBelowMin) {
  JobMachineDriver enough(JobMachineDriver::Spec(1, 2));
  enough.RunTwoNodes();
  enough.Leave('b');
  EXPECT_THAT(enough.Take(), ElementsAre("a<-g0 Stop"));
  JobMachineDriver too_few(JobMachineDriver::Spec(2, 2));
  too_few.RunTwoNodes();
  too_few.Leave('b');
  EXPECT_THAT(too_few.Take(), ElementsAre("a<-g0 Finished 143 left b"));
}

TEST(JobMachineTest, AFinishedNodeThatLeavesDoesNotEndTheJob) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2));
  job.RunTwoNodes();
  job.Exit('a', 0, 0, kOk);
  job.Exit('a', 1, 1, kOk);
  job.Leave('a');
  EXPECT_EQ(job.machine().state(), JobState::kRunning);
  job.Exit('b', 2, 0, kOk);
  job.Exit('b', 3, 1, kOk);
  EXPECT_THAT(job.Take(), ElementsAre("b<-g0 Finished 0"));
}

TEST(JobMachineGoneTest, TheRanksOfAnAgentWhoseWorkersAreGoneAreGivenAwayAtOnce) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2));
  job.RunTwoNodes();
  job.Join('c');  // a spare
  job.Break('a');
  EXPECT_EQ(job.machine().state(), JobState::kRunning) << "suspect: its lease runs";
  job.Gone('a');
  EXPECT_EQ(job.machine().state(), JobState::kStopping);
  job.Drain('b');
  EXPECT_EQ(job.machine().state(), JobState::kForming);
  EXPECT_EQ(job.machine().generation(), Generation{1});
}

TEST(JobMachineGoneTest, ANodeWhosePartIsFinishedIsNotMissed) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2));
  job.RunTwoNodes();
  job.Exit('a', 0, 0, {});
  job.Exit('a', 1, 1, {});
  job.Gone('a');
  EXPECT_EQ(job.machine().state(), JobState::kRunning);
  job.Exit('b', 2, 0, {});
  job.Exit('b', 3, 1, {});
  EXPECT_EQ(job.machine().state(), JobState::kSucceeded);
}

JobStatus::Measured MeasuredOf(JobMachineDriver& job) {
  return job.machine().Status(job.now()).measured;
}

// `beats` seconds, each with a heartbeat of `a`.
void Live(JobMachineDriver* job, int beats) {
  for (int i = 0; i < beats; ++i) {
    job->Advance(seconds(1));
    job->Beat('a');
  }
}

// An alert for jobs that save nothing uses this value.
TEST(JobMachineTest, AJobWithAFolderThatHasSavedNothingIsWithoutACheckpointSinceItsStart) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1, 3));
  ddprun::Join join{job.spec(), {"a", "10.0.0.a", 2}, 1001};
  join.has_checkpoint_folder = true;
  job.Receive('a', join);
  EXPECT_FALSE(MeasuredOf(job).without_checkpoint) << "it waits";
  job.Prepare('a');
  Live(&job, 40);
  job.Exit('a', 0, 0, kCode3);
  job.Drain('a');
  job.Prepare('a');
  Live(&job, 20);
  EXPECT_EQ(MeasuredOf(job).without_checkpoint, seconds(60)) << "a restart changes nothing";
  EXPECT_FALSE(MeasuredOf(job).checkpoint_age);
  job.Checkpoint('a', 5);
  Live(&job, 8);
  EXPECT_EQ(MeasuredOf(job).without_checkpoint, seconds(8));
  EXPECT_EQ(MeasuredOf(job).checkpoint_age, seconds(8));
}

TEST(JobMachineTest, ARendezvousThatWasStartedAgainCountsFromThenWhatHasNoCheckpoint) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1, 3));
  job.Join('a');
  job.Prepare('a');
  Live(&job, 10);
  job.RestartDaemon(seconds(1));
  EXPECT_FALSE(MeasuredOf(job).without_checkpoint) << "no node has told that it has a folder";
  ddprun::Join join{job.spec(), {"a", "10.0.0.a", 2}, 1001, true};
  join.has_checkpoint_folder = true;
  job.Receive('a', join);
  Live(&job, 7);
  EXPECT_EQ(MeasuredOf(job).without_checkpoint, seconds(7));
}

TEST(JobMachineTest, AJobThatDoesNotSaveIsNotWithoutACheckpoint) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1));
  job.Join('a');
  job.Prepare('a');
  Live(&job, 40);
  EXPECT_FALSE(MeasuredOf(job).without_checkpoint);
  job.BeatWithFailures('a', 1);  // so the job saves checkpoints
  EXPECT_EQ(MeasuredOf(job).without_checkpoint, seconds(40));
}

}  // namespace job_machine_losses_test
}  // namespace ddprun
