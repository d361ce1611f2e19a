#include "rendezvous/machine/job_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace job_machine_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ExitStatus kKilled{0, SIGKILL, false};
constexpr ExitStatus kCode3{3, 0, false};
constexpr ExitStatus kOk{};

TEST(JobMachineTest, AssignsRanksWhenTheLastNodeJoins) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 3));
  job.Join('b', 4);
  job.Clear();
  job.Join('a', 2);
  EXPECT_THAT(job.Take(),
              ElementsAre("a<-g0 Assignment node 0/2 first 0 world 6 10.0.0.a:1002 restart 0/3",
                          "b<-g0 Assignment node 1/2 first 2 world 6 10.0.0.a:1002 restart 0/3"));
}

TEST(JobMachineTest, StartsNobodyBeforeEveryNodeHasPrepared) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2));
  job.Join('a');
  job.Join('b');
  job.Clear();
  job.Prepare('b');
  EXPECT_THAT(job.Take(), IsEmpty());
  job.Prepare('a');
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Start", "b<-g0 Start"));
  EXPECT_EQ(job.machine().state(), JobState::kRunning);
}

TEST(JobMachineTest, SucceedsWhenEveryWorkerOfEveryNodeExitedWithZero) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2));
  job.RunTwoNodes();
  job.Exit('a', 0, 0, kOk);
  job.Exit('a', 0, 0, kOk);  // reported twice, counted once
  job.Exit('b', 2, 0, kOk);
  job.Exit('b', 3, 1, kOk);
  EXPECT_THAT(job.Take(), IsEmpty());
  job.Exit('a', 1, 1, kOk);
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Finished 0", "b<-g0 Finished 0"));
  EXPECT_EQ(job.machine().state(), JobState::kSucceeded);
}

TEST(JobMachineTest, AFailureStopsEveryNodeAndRestartsWithTheSameRanksAndAFreshPort) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 3));
  job.RunTwoNodes();
  job.Exit('b', 3, 1, kKilled);
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop", "b<-g0 Stop"));
  job.Drain('b');
  EXPECT_THAT(job.Take(), IsEmpty());
  job.Drain('a');
  EXPECT_THAT(job.Take(),
              ElementsAre("a<-g1 Assignment node 0/2 first 0 world 4 10.0.0.a:1004 restart 1/3",
                          "b<-g1 Assignment node 1/2 first 2 world 4 10.0.0.a:1004 restart 1/3"));
}

TEST(JobMachineTest, ANodeWhoseWorkersHadFinishedRunsAgainAfterAFailureElsewhere) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 1));
  job.RunTwoNodes();
  job.Exit('a', 0, 0, kOk);
  job.Exit('a', 1, 1, kOk);
  job.Exit('b', 2, 0, kCode3);
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop", "b<-g0 Stop"));
  job.Drain('a');
  job.Drain('b');
  job.Clear();
  job.Prepare('a');
  job.Prepare('b');
  EXPECT_THAT(job.Take(), ElementsAre("a<-g1 Start", "b<-g1 Start"));
  job.Exit('b', 2, 0, kOk);
  job.Exit('b', 3, 1, kOk);
  EXPECT_THAT(job.Take(), IsEmpty()) << "node a's results of generation 0 count no more";
}

TEST(JobMachineTest, WithoutBudgetEveryNodeGetsTheRootCausesCode) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 0));
  job.RunTwoNodes();
  job.Exit('b', 3, 1, kKilled);
  job.Exit('a', 0, 0, kCode3);
  job.Clear();
  job.Drain('a');
  job.Drain('b');
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Finished 137 rank 3 victim 0",
                                      "b<-g0 Finished 137 rank 3 victim 0"));
  EXPECT_EQ(job.machine().state(), JobState::kFailed);
}

TEST(JobMachineTest, AVictimThatIsHeardFirstIsNotTheRootCause) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 0));
  job.RunTwoNodes();
  job.Exit('a', 0, 0, kCode3, "collective");
  job.Exit('b', 3, 1, kKilled);
  job.Clear();
  job.Drain('a');
  job.Drain('b');
  EXPECT_THAT(job.Take(), Contains("a<-g0 Finished 137 rank 3 victim 0"));
}

TEST(JobMachineTest, WhileOnlyVictimsAreKnownTheCauseIsWaitedForASecond) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 0));
  job.RunTwoNodes();
  job.Exit('a', 0, 0, kCode3, "collective");
  EXPECT_THAT(job.Take(), IsEmpty()) << "a Stop would silence the cause";
  job.Advance(milliseconds(500));
  job.Exit('b', 3, 1, kKilled);
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop", "b<-g0 Stop"));

  JobMachineDriver silent(JobMachineDriver::Spec(2, 2, 0));
  silent.RunTwoNodes();
  silent.Exit('a', 0, 0, kCode3, "collective");
  silent.Advance(milliseconds(999));
  EXPECT_THAT(silent.Take(), IsEmpty());
  silent.Advance(milliseconds(1));
  EXPECT_THAT(silent.Take(), ElementsAre("a<-g0 Stop", "b<-g0 Stop"));
}

TEST(JobMachineTest, WhenEveryWorkerHasEndedNothingMoreIsWaitedFor) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1, 0));
  job.Join('a');
  job.Prepare('a');
  job.Clear();
  job.Exit('a', 0, 0, kCode3, "collective");
  EXPECT_THAT(job.Take(), IsEmpty());
  job.Exit('a', 1, 1, kCode3, "collective");
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop"));
}

TEST(JobMachineTest, AReportThatComesAfterTheNodeHasDrainedChangesNothing) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 0));
  job.RunTwoNodes();
  job.Exit('b', 2, 0, kCode3, "collective");
  job.Advance(seconds(1));
  job.Drain('a');
  job.Exit('a', 0, 0, kKilled);
  job.Clear();
  job.Drain('b');
  EXPECT_THAT(job.Take(), Contains("a<-g0 Finished 3 rank 2"));
}

TEST(JobMachineTest, AnAgentThatHasToWaitIsToldWhy) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2));
  job.Join('a');
  job.Advance(milliseconds(999));
  EXPECT_THAT(job.Take(), IsEmpty()) << "most rounds are complete before anybody could read it";
  job.Advance(milliseconds(1));
  EXPECT_THAT(job.Take(), ElementsAre("a<-g-1 Waiting"));
  job.Advance(milliseconds(1999));
  job.Beat('a');
  EXPECT_THAT(job.Take(), IsEmpty());
  job.Advance(milliseconds(1));
  EXPECT_THAT(job.Take(), ElementsAre("a<-g-1 Waiting"));
  job.Join('b');
  job.Prepare('a');
  job.Prepare('b');
  job.Clear();
  job.Join('c');
  EXPECT_THAT(job.Take(), ElementsAre("c<-g0 Waiting"));
}

TEST(JobMachineTest, TheBudgetIsTheJobsNotTheNodes) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 2));
  job.RunTwoNodes();
  for (const char agent : {'a', 'b'}) {
    job.Exit(agent, agent == 'a' ? 0 : 2, 0, kCode3);
    job.Drain('a', agent == 'a' ? 17 : 34);  // each generation gets further
    job.Drain('b');
    job.Prepare('a');
    job.Prepare('b');
  }
  EXPECT_EQ(job.machine().restarts_used(), 2);
  job.Exit('a', 0, 0, kCode3);
  job.Drain('a');
  job.Drain('b');
  EXPECT_EQ(job.machine().state(), JobState::kFailed);
}

TEST(JobMachineTest, ACommandThatCannotBeExecutedIsNotTriedAgain) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1, 3));
  job.Join('a');
  job.Prepare('a');
  job.Clear();
  job.Exit('a', 0, 0, ExitStatus{127, 0, false}, "exec");
  job.Drain('a');
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop", "a<-g0 Finished 127 rank 0"));
}

// The job must not be restarted: each generation would wait 30 s, and then refuse the folder again.
TEST(JobMachineTest, AFolderOfAnotherTrainingIsNoReasonToStartAgain) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1, 3));
  job.Join('a');
  job.Prepare('a');
  job.Clear();
  job.Exit('a', 0, 0, ExitStatus{77, 0, false}, "folder");
  job.Drain('a');
  EXPECT_EQ(job.TakeText(), "a<-g0 Stop; a<-g0 Finished 77 rank 0");
}

TEST(JobMachineTest, BelowMaxItWaitsForTheLastCall) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2));
  job.Join('a');
  job.Clear();
  EXPECT_EQ(job.machine().state(), JobState::kLastCall);
  job.Advance(seconds(1));
  EXPECT_THAT(job.Take(), ElementsAre("a<-g-1 Waiting"));
  job.Beat('a');
  EXPECT_EQ(job.machine().NextDeadline(), job.now() + seconds(2)) << "told again before the lease";
  for (int second = 1; second < 4; ++second) {
    job.Advance(seconds(1));
    job.Beat('a');
  }
  job.Clear();
  job.Advance(seconds(1));
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("node 0/1 first 0 world 2")));
}

TEST(JobMachineTest, AReformingRoundHoldsNoLastCall) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 3, 1));
  job.Join('a');
  job.Join('b');
  for (int second = 0; second < 5; ++second) {
    job.Beat('a');
    job.Beat('b');
    job.Advance(seconds(1));
  }
  job.Prepare('a');
  job.Prepare('b');
  job.Exit('a', 0, 0, kCode3);
  job.Drain('a');
  job.Clear();
  job.Drain('b');
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("a<-g1 Assignment node 0/2"),
                                      HasSubstr("b<-g1 Assignment node 1/2")));
}

TEST(JobMachineTest, TooFewNodesWithinTheJoinTimeoutEndTheJobWithWhoIsThere) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2), JobMachineOptions{.leases = false});
  job.Join('a');
  job.Clear();
  job.Advance(seconds(599));
  EXPECT_EQ(job.machine().state(), JobState::kGathering);
  job.Clear();
  job.Advance(seconds(1));
  EXPECT_THAT(job.Take(), Contains("a<-g-1 Finished 69"));
  EXPECT_THAT(job.TakeNotes(),
              Contains("ended: only 1 of at least 2 nodes joined within 600 s; here: a"));
}

TEST(JobMachineTest, ExtraAgentsWaitAndReplaceALostNodeInTheNextGeneration) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 0));
  job.RunTwoNodes();
  job.Join('c');
  EXPECT_EQ(job.machine().Status(job.now(), StatusDetail::kWithoutNodes).spares, 1);
  job.Clear();
  job.Break('a');
  EXPECT_THAT(job.Take(), IsEmpty()) << "within the lease nothing is given away";
  job.Advance(milliseconds(2999));
  job.Beat('b');
  job.Beat('c');
  EXPECT_THAT(job.Take(), IsEmpty());
  job.Advance(milliseconds(1));
  EXPECT_THAT(job.Take(), ElementsAre("b<-g0 Stop"));
  job.Drain('b');
  EXPECT_THAT(job.Take(),
              ElementsAre("c<-g1 Assignment node 0/2 first 0 world 4 10.0.0.c:1003 restart 0/0",
                          "b<-g1 Assignment node 1/2 first 2 world 4 10.0.0.c:1003 restart 0/0"))
      << "b keeps its rank";
  EXPECT_EQ(job.machine().Status(job.now(), StatusDetail::kWithoutNodes).spares, 0);
}

TEST(JobMachineTest, AfterAGenerationWithoutAStepTheNextOneIsDelayed) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1, 5), JobMachineOptions{.leases = false});
  job.Join('a');
  job.Prepare('a');
  job.Exit('a', 0, 0, kCode3);
  job.Drain('a');  // the first restart is immediate
  job.Prepare('a');
  job.Clear();
  job.Exit('a', 0, 0, kCode3);
  job.Drain('a');
  EXPECT_EQ(job.machine().state(), JobState::kBackoff);
  const auto deadline = job.machine().NextDeadline();
  ASSERT_TRUE(deadline.has_value());
  EXPECT_GE(*deadline - job.now(), milliseconds(100));
  EXPECT_LE(*deadline - job.now(), milliseconds(200));
  EXPECT_THAT(job.Take(), ElementsAre("a<-g1 Stop"));
  job.Advance(milliseconds(200));
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("a<-g2 Assignment")));
}

TEST(JobMachineTest, TheCausesOfEarlierGenerationsAreToldAtTheEnd) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 1));
  job.RunTwoNodes();
  job.Exit('a', 1, 1, kKilled);
  job.Drain('a', 5);
  job.Drain('b', 5);
  job.Prepare('a');
  job.Prepare('b');
  job.Exit('b', 2, 0, kCode3);
  job.Drain('a');
  job.Drain('b');
  ASSERT_TRUE(job.last_finished().root_cause.has_value());
  EXPECT_EQ(job.last_finished().root_cause->failure.exit.rank, Rank{2});
  EXPECT_EQ(job.last_finished().root_cause->failure.generation, Generation{1});
  ASSERT_EQ(job.last_finished().earlier.size(), 1u);
  EXPECT_EQ(job.last_finished().earlier[0].failure.exit.rank, Rank{1});
  EXPECT_EQ(job.last_finished().earlier[0].failure.generation, Generation{0});
}

TEST(JobMachineTest, OfMoreCausesThanAreKeptTheFirstOneStays) {
  const int restarts = static_cast<int>(kMaxEarlierCauses) + 6;
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, restarts));
  job.RunTwoNodes();
  for (int i = 0; i <= restarts; ++i) {
    job.Exit('a', i == 0 ? 1 : 0, i == 0 ? 1 : 0, kKilled);
    job.Drain('a', 5);
    job.Drain('b', 5);
    job.Prepare('a');
    job.Prepare('b');
  }
  const Finished& finished = job.last_finished();
  ASSERT_EQ(finished.earlier.size(), kMaxEarlierCauses - 1);
  EXPECT_EQ(finished.earlier[0].failure.generation, Generation{0});
  EXPECT_EQ(finished.earlier[0].failure.exit.rank, Rank{1});
  EXPECT_EQ(finished.earlier[1].failure.generation, Generation{8}) << "the last ones";
  EXPECT_EQ(finished.root_cause->failure.generation, Generation{restarts});
}

// The first failure often explains the others.
TEST(JobMachineTest, EachEarlierCauseKeepsTheLastKibibyteOfItsStderr) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, /*max_restarts=*/1));
  job.RunTwoNodes();
  WorkerExited first;
  first.rank = Rank{1};
  first.local_rank = LocalRank{1};
  first.status = kCode3;
  first.stderr_tail = {std::string(600, 'a'), std::string(600, 'b'), std::string(400, 'c')};
  job.Receive('a', first);
  job.Drain('a', 5);
  job.Drain('b', 5);
  job.Prepare('a');
  job.Prepare('b');
  WorkerExited last;
  last.rank = Rank{2};
  last.status = kCode3;
  last.stderr_tail = {std::string(3000, 'd')};
  job.Receive('b', last);
  job.Drain('a');
  job.Drain('b');
  ASSERT_EQ(job.last_finished().earlier.size(), 1u);
  EXPECT_THAT(job.last_finished().earlier[0].failure.exit.stderr_tail,
              testing::ElementsAre(std::string(600, 'b'), std::string(400, 'c')));
  EXPECT_EQ(job.last_finished().root_cause->failure.exit.stderr_tail, last.stderr_tail);
}

TEST(JobMachineTest, AnAgentWithAnotherProgramIsRefused) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 3));
  job.JoinWith('a', {"default", "a.sh"});
  job.JoinWith('b', {"default", "b.sh"});
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("b<-g-1 Refused: the workers here run b.sh, but "
                                                "those of a in the same job run a.sh")));
  job.JoinWith('c', {"default", "a.sh"});
  EXPECT_EQ(job.machine().state(), JobState::kLastCall);
}

// The first node tells no program. The second one is compared until it leaves, then the third one.
TEST(JobMachineTest, AnotherProgramIsRefusedAlsoAfterTheFirstNodeHasLeft) {
  JobMachineDriver job(JobMachineDriver::Spec(5, 5));
  job.JoinWith('a', {"default", ""});
  job.JoinWith('b', {"default", "a.sh"});
  job.JoinWith('c', {"default", "a.sh"});
  job.Gone('b');
  job.Take();
  job.JoinWith('d', {"default", "b.sh"});
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("those of c in the same job run a.sh")));
  job.Gone('c');
  job.Take();
  job.JoinWith('e', {"default", "b.sh"});
  EXPECT_THAT(job.Take(), ElementsAre());
}

TEST(JobMachineTest, OtherArgumentsAreAWarningOnBothNodesAndOnceOnTheFirst) {
  JobMachineDriver job(JobMachineDriver::Spec(4, 4));
  job.JoinWith('a', {"default", "a.sh", {1, 2}});
  job.JoinWith('b', {"default", "a.sh", {1, 2}});
  EXPECT_THAT(job.Take(), ElementsAre());
  job.JoinWith('c', {"default", "a.sh", {1, 3}});
  EXPECT_THAT(
      job.Take(),
      ElementsAre("c<-g-1 Warning: argument 2 of a.sh is not the same on c and a; if that is "
                  "not meant, start every node with the same command",
                  HasSubstr("a<-g-1 Warning: argument 2 of a.sh is not the same on a and c")));
  job.JoinWith('d', {"default", "a.sh", {4, 2}});
  EXPECT_THAT(job.TakeText(),
              AllOf(HasSubstr("d<-g-1 Warning: argument 1"), Not(HasSubstr("a<-g-1 Warning"))));
}

TEST(JobMachineTest, AnAgentStartedWithAnotherCommandIsRefusedAndToldWhy) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2));
  job.Join('a');
  job.Clear();
  JobSpec other = job.spec();
  other.max_restarts = 9;
  job.Receive('b', Join{other, {"b", "10.0.0.b", 2}, 1});
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("b<-g-1 Refused: --max-restarts is 9 here, but the "
                                                "job began with 0")));
}

TEST(JobMachineTest, AMessageForAnotherJobOrEpochIsRefused) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1));
  JobMachine machine("job", 7);
  const auto actions = machine.Step(
      JobMachine::Received{{"job", 6, Generation{0}, AgentId{1}}, Heartbeat{}}, job.now());
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Refused>(std::get<JobMachine::Send>(actions[0]).message));
}

TEST(JobMachineTest, SameEventsGiveSameActions) {
  const auto play = [] {
    JobMachineDriver job(JobMachineDriver::Spec(2, 2, 3));
    job.RunTwoNodes();
    job.Exit('b', 3, 1, kKilled);
    job.Drain('a');
    job.Drain('b');
    return job.TakeText();
  };
  EXPECT_EQ(play(), play());
}

}  // namespace job_machine_test
}  // namespace ddprun
