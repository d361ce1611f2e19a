// Tests the stacks that JobMachine requests, before it calls a hang and for operators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/machine/job_machine.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"
#include "tests/unit/rendezvous/machine/job_machine_hang_job.h"

namespace ddprun {
namespace job_machine_stacks_test {

using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class JobMachineStacksTest : public JobMachineHangTest {
 protected:
  // Every node was asked, and none has answered.
  void Ask(int on_hang = JobSpec::kRestartHang) {
    Run(on_hang);
    job_->HoldStacks();
    culprit_ = ProcessState::kRunnable;
    collectives_ = false;
    asked_ = StandStill(10);
  }
  void AnswerAll() {
    job_->SendStacks('a', {{0, "c10d::wait"}, {1, "c10d::wait"}});
    job_->SendStacks('b', {{2, "c10d::wait"}, {3, "LoadShard"}});
  }
  bool HasCalled(const std::vector<std::string>& said) {
    return testing::Value(said, Contains(HasSubstr("job hangs")));
  }

  std::vector<std::string> asked_;
};

TEST_F(JobMachineStacksTest, AreAskedOfEveryNodeBeforeAnythingIsSaidOrEnded) {
  Ask();
  EXPECT_THAT(asked_, testing::ElementsAre("a<-g0 TakeStacks", "b<-g0 TakeStacks"));
  job_->SendStacks('a', {});
  EXPECT_THAT(job_->Take(), testing::IsEmpty()) << "b is waited for";
}

TEST_F(JobMachineStacksTest, NameTheCulpritAndGoToEveryNodeIntoTheEventAndTheCause) {
  Ask();
  AnswerAll();
  const auto said = job_->Take();
  for (const std::string node : {"a", "b"}) {
    EXPECT_THAT(said,
                Contains(AllOf(HasSubstr(node + "<-"),
                               HasSubstr("rank 3 on b (pid 201) is in no collective: it is in "
                                         "LoadShard f.cc:2; 3 ranks wait in c10d::wait"))));
    EXPECT_THAT(said, Contains(AllOf(HasSubstr(node + "<-"),
                                     HasSubstr("  rank 3: main m.cc:1 → LoadShard f.cc:2"))));
    EXPECT_THAT(said, Contains(HasSubstr(node + "<-g0 HangStacks [0-3]: ")));
    EXPECT_THAT(said, Contains(node + "<-g0 Stop"));
  }
  const auto events = job_->TakeEvents();
  const auto hung = std::find_if(events.begin(), events.end(), [](const JobEvent& event) {
    return event.kind == JobEvent::Kind::kHung;
  });
  ASSERT_NE(hung, events.end());
  EXPECT_NE(hung->agent_id, AgentId{}) << "of two agents on one host: which one";
  EXPECT_EQ(hung->stacks->nodes.size(), 3u);
  EXPECT_EQ(hung->cause->frames.at(0).function, "LoadShard");
  job_->Drain('a');
  job_->Drain('b');
  EXPECT_EQ(job_->machine().generation(), Generation{1});
  EXPECT_EQ(job_->machine().Status({}).last_cause->frames.at(0).function, "LoadShard");
}

TEST_F(JobMachineStacksTest, ANodeThatDoesNotAnswerIsNamedAndNotWaitedFor) {
  Ask();
  job_->SendStacks('a', {{0, "c10d::wait"}, {1, "c10d::wait"}});
  EXPECT_FALSE(HasCalled(StandStill(4)));
  EXPECT_EQ(job_->machine().NextDeadline().value() - job_->now(), seconds(1));
  const auto said = StandStill(1);
  EXPECT_TRUE(HasCalled(said));
  EXPECT_THAT(said,
              Contains(AllOf(HasSubstr("a<-g0"), HasSubstr("no stacks came within 5 s from b"))));
  EXPECT_THAT(said, Contains(HasSubstr("a<-g0 HangStacks [0-1]: ")));
  EXPECT_THAT(said, Contains("b<-g0 Stop"));
}

TEST_F(JobMachineStacksTest, ManyNodesAreAskedInPortions) {
  Run(JobSpec::kReportHang);
  job_->HoldStacks();
  job_->AskStacks();
  EXPECT_THAT(job_->Take(), testing::ElementsAre("a<-g0 TakeStacks", "b<-g0 TakeStacks"));
  JobMachineOptions options;
  options.stacks_pace = {.at_once = 1, .pause = std::chrono::milliseconds(10)};
  job_.emplace(JobMachineDriver::Spec(2, 2), options);
  job_->RunTwoNodes();
  job_->HoldStacks();
  job_->Clear();
  job_->AskStacks();
  EXPECT_THAT(job_->Take(), testing::ElementsAre("a<-g0 TakeStacks"));
  EXPECT_EQ(job_->machine().NextDeadline().value() - job_->now(), std::chrono::milliseconds(10));
  job_->SendStacks('a', {{0, "f"}});
  EXPECT_THAT(job_->Take(), testing::IsEmpty()) << "b is waited for, and will be asked";
  job_->Advance(std::chrono::milliseconds(10));
  EXPECT_THAT(job_->Take(), testing::ElementsAre("b<-g0 TakeStacks"));
  job_->SendStacks('b', {{2, "f"}});
  EXPECT_THAT(job_->Take(), testing::ElementsAre("stacks: [0,2]"));
}

// Seen red when every node got the stacks: 268 MB for 16,384 nodes, while other jobs waited.
TEST_F(JobMachineStacksTest, InAVeryLargeJobTheFirstNodesAloneGetThem) {
  options_.hang_bytes_of_all_nodes = 16 << 10;  // the least that a node gets
  Ask();
  AnswerAll();
  const auto said = job_->Take();
  EXPECT_THAT(said, Contains(HasSubstr("a<-g0 HangStacks [0-3]: ")));
  EXPECT_THAT(said,
              Contains(AllOf(HasSubstr("b<-g0 HangStacks []: "), HasSubstr("rank 3 on b (pid 201)"),
                             HasSubstr("are in the run's folder on a"))));
}

TEST_F(JobMachineStacksTest, WhereARankMovesMeanwhileItIsNoHang) {
  Ask();
  Second(/*moves=*/true);
  AnswerAll();
  EXPECT_FALSE(HasCalled(job_->Take()));
  EXPECT_FALSE(HasCalled(StandStill(9)));
  EXPECT_THAT(StandStill(1), Contains("a<-g0 TakeStacks")) << "the next one is judged anew";
}

TEST_F(JobMachineStacksTest, WhereARankMovesWhileTheyAreJudgedItIsNoHang) {
  Ask();
  job_->HoldFindings();
  AnswerAll();
  EXPECT_FALSE(HasCalled(job_->Take()));
  Second(/*moves=*/true);
  job_->TellFindings();
  EXPECT_FALSE(HasCalled(job_->Take()));
}

TEST_F(JobMachineStacksTest, WhileTheyAreJudgedNoAnswerCountsAndNobodyIsAsked) {
  Ask();
  job_->HoldFindings();
  job_->SendStacks('a', {{0, "c10d::wait"}, {1, "c10d::wait"}});
  StandStill(5);
  job_->SendStacks('b', {{2, "c10d::wait"}, {3, "LoadShard"}});
  job_->Rejoin('b', 0, /*workers_running=*/true);
  EXPECT_THAT(job_->Take(), testing::Not(Contains(HasSubstr("TakeStacks"))));
  job_->TellFindings();
  EXPECT_THAT(job_->Take(),
              Contains(AllOf(HasSubstr("a<-g0"), HasSubstr("no stacks came within 5 s from b"))));
}

TEST_F(JobMachineStacksTest, AnOperatorWhoAsksWhileTheyAreJudgedGetsThem) {
  Ask(JobSpec::kReportHang);
  job_->HoldFindings();
  AnswerAll();
  job_->AskStacks(7);
  EXPECT_THAT(job_->Take(), testing::IsEmpty());
  job_->TellFindings();
  EXPECT_THAT(job_->Take(), Contains("stacks: [0-3]"));
}

TEST_F(JobMachineStacksTest, WhereAWorkerFailsMeanwhileThatIsTheCause) {
  Ask();
  job_->Exit('a', 0, 0, ExitStatus{3, 0, false});
  EXPECT_THAT(job_->Take(), Contains("b<-g0 Stop"));
  AnswerAll();
  EXPECT_FALSE(HasCalled(job_->Take()));
  job_->Drain('a');
  job_->Drain('b');
  EXPECT_EQ(job_->machine().Status({}).last_cause->kind, RootCause::Kind::kWorkerFailed);
}

TEST_F(JobMachineStacksTest, WhereARankEndsWith0MeanwhileTheOthersHaveLonger) {
  Ask();
  job_->Exit('a', 0, 0, {});
  AnswerAll();
  EXPECT_FALSE(HasCalled(job_->Take()));
}

TEST_F(JobMachineStacksTest, WhereANodeIsLostMeanwhileThatIsTheCause) {
  Ask();
  job_->Gone('b');
  job_->SendStacks('a', {});
  EXPECT_FALSE(HasCalled(job_->Take()));
  EXPECT_EQ(job_->machine().state(), JobState::kStopping);
}

TEST_F(JobMachineStacksTest, WhereAnOperatorStopsTheJobMeanwhileItIsNoHang) {
  Ask();
  job_->AskStop(true);
  AnswerAll();
  EXPECT_FALSE(HasCalled(job_->Take()));
}

TEST_F(JobMachineStacksTest, ANodeThatComesBackIsAskedAgain) {
  Ask();
  job_->Break('b');
  job_->Rejoin('b', 0, true);
  EXPECT_THAT(job_->Take(), Contains("b<-g0 TakeStacks"));
  AnswerAll();
  EXPECT_TRUE(HasCalled(job_->Take()));
}

// A node's heartbeats are late. Seen red when this made the rendezvous take all stacks again, and
// when the verdict came only 5 s later.
TEST_F(JobMachineStacksTest, AreNotTakenAgainBecauseANodeIsHeardLate) {
  JobSpec spec = JobMachineDriver::Spec(2, 2, 3);
  spec.hang_timeout = seconds(10);
  spec.on_hang = JobSpec::kRestartHang;
  spec.lease = seconds(60);
  Run(spec, "", false);
  job_->HoldStacks();
  culprit_ = ProcessState::kRunnable;
  collectives_ = false;
  StandStill(10);
  job_->SendStacks('b', {{2, "c10d::wait"}, {3, "LoadShard"}});
  silent_ = 'b';
  StandStill(4);
  job_->SendStacks('a', {{0, "c10d::wait"}, {1, "c10d::wait"}});
  EXPECT_FALSE(HasCalled(StandStill(12)));
  silent_ = 0;
  const auto said = StandStill(2);
  EXPECT_TRUE(HasCalled(said));
  EXPECT_THAT(said, Contains(HasSubstr("it is in LoadShard")));
  EXPECT_THAT(said, Not(Contains(HasSubstr("TakeStacks"))));
}

TEST_F(JobMachineStacksTest, OfBeforeAMoveAreNotUsedForTheNextHang) {
  JobSpec spec = JobMachineDriver::Spec(2, 2, 3);
  spec.hang_timeout = seconds(10);
  spec.on_hang = JobSpec::kRestartHang;
  spec.lease = seconds(60);
  Run(spec, "", false);
  job_->HoldStacks();
  StandStill(10);
  job_->SendStacks('b', {{2, "c10d::wait"}, {3, "LoadShard"}});
  silent_ = 'b';
  StandStill(4);
  job_->SendStacks('a', {{0, "c10d::wait"}, {1, "c10d::wait"}});
  silent_ = 0;
  Second(/*moves=*/true);
  job_->Clear();
  EXPECT_THAT(StandStill(11),
              AllOf(Contains("a<-g0 TakeStacks"), Not(Contains(HasSubstr("hangs")))));
}

TEST_F(JobMachineStacksTest, AnswersToAnEarlierRequestAndSecondAnswersAreIgnored) {
  Ask();
  const StackRequestId earlier = job_->last_request();
  Second(/*moves=*/true);
  AnswerAll();
  StandStill(10);
  ASSERT_NE(job_->last_request(), earlier);
  job_->AnswerStacks('a', earlier);
  job_->AnswerStacks('b', earlier);
  job_->SendStacks('a', {{0, "c10d::wait"}});
  job_->SendStacks('a', {{1, "c10d::wait"}});
  EXPECT_FALSE(HasCalled(job_->Take()));
  job_->SendStacks('b', {});
  EXPECT_THAT(job_->Take(), Contains(HasSubstr("a<-g0 HangStacks [0]: ")));
}

TEST_F(JobMachineStacksTest, RanksOfOthersAreNotTakenFromANode) {
  Ask();
  job_->SendStacks('a', {{0, "c10d::wait"}, {3, "c10d::wait"}});
  job_->SendStacks('b', {{3, "LoadShard"}});
  const auto said = job_->Take();
  EXPECT_THAT(said, Contains(HasSubstr("a<-g0 HangStacks [3]: ")));
  EXPECT_THAT(said, Contains(HasSubstr("no stacks came within 5 s from a")));
}

TEST_F(JobMachineStacksTest, AnOperatorSeesThemAtAnyTime) {
  Run(JobSpec::kReportHang);
  job_->HoldStacks();
  job_->AskStacks(1);
  job_->AskStacks(2);
  EXPECT_THAT(job_->Take(), testing::ElementsAre("a<-g0 TakeStacks", "b<-g0 TakeStacks"));
  AnswerAll();
  EXPECT_THAT(job_->Take(), testing::ElementsAre("stacks: [0-3]", "stacks: [0-3]"));
  job_->AskStacks();
  job_->SendStacks('a', {{0, "f"}});
  job_->Clear();
  job_->Advance(seconds(5));
  EXPECT_THAT(job_->Take(), Contains("stacks: [0], not of b"));
}

TEST_F(JobMachineStacksTest, AnOperatorDoesNotWaitForANodeThatIsGone) {
  Run(JobSpec::kReportHang);
  job_->HoldStacks();
  job_->AskStacks();
  job_->SendStacks('a', {{0, "f"}});
  job_->Clear();
  job_->Gone('b');
  EXPECT_THAT(job_->Take(), Contains("stacks: [0], not of b"));
}

TEST_F(JobMachineStacksTest, AnOperatorHearsThatTheJobHasEndedMeanwhile) {
  Run(JobSpec::kReportHang);
  job_->HoldStacks();
  job_->AskStacks();
  job_->Leave('a');
  job_->Leave('b');
  EXPECT_THAT(job_->Take(), Contains(HasSubstr("no: there are no stacks: ")));
}

TEST_F(JobMachineStacksTest, AVerdictTakesNewOnesAndTheOperatorGetsThem) {
  Run(JobSpec::kReportHang);
  job_->HoldStacks();
  StandStill(9);
  job_->AskStacks();
  const StackRequestId earlier = job_->last_request();
  StandStill(1);
  ASSERT_NE(job_->last_request(), earlier);
  AnswerAll();
  EXPECT_THAT(job_->Take(),
              AllOf(Contains(HasSubstr("a<-g0 HangStacks [0-3]: ")), Contains("stacks: [0-3]")));
}

TEST_F(JobMachineStacksTest, WithoutWorkersThereAreNone) {
  job_.emplace(JobMachineDriver::Spec(2, 2));
  job_->Join('a');
  job_->AskStacks();
  EXPECT_THAT(job_->Take(), Contains(HasSubstr("no: job job has no workers now: ")));
}

}  // namespace job_machine_stacks_test
}  // namespace ddprun
