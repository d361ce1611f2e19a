// Tests what JobMachine reports if it could not notice a hang.
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
namespace job_machine_not_judged_test {

using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class JobMachineNotJudgedTest : public JobMachineHangTest {
 protected:
  // gdb holds rank 3 while no rank moves.
  std::vector<std::string> Debug(int for_seconds) {
    debugged_ = true;
    if (!excuse_) excuse_ = HangExcuse{LocalRank{1}, 201, "is held by gdb (pid 77)", {}};
    for (int i = 0; i < for_seconds; ++i) {
      excuse_->lasts += seconds(1);
      Second(/*moves=*/false);
    }
    return job_->Take();
  }
  JobStatus Status() { return job_->machine().Status(job_->now()); }
};

// A forgotten debugger delays the verdict for ever. Seen red when it was not reported.
TEST_F(JobMachineNotJudgedTest, AnExcuseThatLastsForALimitIsToldOnceToEveryNode) {
  Run(JobSpec::kRestartHang);
  EXPECT_THAT(Debug(8), Not(Contains(HasSubstr("not judged"))));
  const auto said = Debug(30);
  for (const std::string node : {"a", "b"}) {
    EXPECT_EQ(std::count_if(said.begin(), said.end(),
                            [&](const std::string& line) {
                              return line.starts_with(node + "<-") &&
                                     line.find(
                                         "job job is not judged: rank 3 on b (pid 201) is "
                                         "held by gdb (pid 77) since 10.0 s") != std::string::npos;
                            }),
              1);
  }
  EXPECT_THAT(said, Not(Contains(HasSubstr("hangs"))));
  const auto events = job_->TakeEvents();
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const JobEvent& event) {
                            return event.kind == JobEvent::Kind::kNotJudged && event.host == "b";
                          }),
            1);
}

TEST_F(JobMachineNotJudgedTest, StatusSaysWhoIsExcusedAndTheAgeByTheClock) {
  Run(JobSpec::kRestartHang);
  StandStill(4);
  Debug(60);
  const JobStatus status = Status();
  ASSERT_TRUE(status.not_judged && status.not_judged->excuse && status.progress);
  EXPECT_EQ(status.not_judged->why, "rank 3 on b (pid 201) is held by gdb (pid 77) since 60.0 s");
  EXPECT_EQ(status.not_judged->excuse->rank, Rank{3});
  EXPECT_EQ(status.not_judged->excuse->lasts, seconds(60));
  EXPECT_LT(status.progress->still, seconds(5));
  EXPECT_GE(status.progress->wall, seconds(64));
  debugged_ = false;
  excuse_.reset();
  Second(/*moves=*/true);
  EXPECT_FALSE(Status().not_judged);
  EXPECT_LT(Status().progress->wall, seconds(2));
}

TEST_F(JobMachineNotJudgedTest, StatusSaysThatNobodyTellsHowFarItIs) {
  job_.emplace(JobMachineDriver::Spec(2, 2, 3));
  job_->RunTwoNodes();
  ASSERT_TRUE(Status().not_judged);
  EXPECT_THAT(Status().not_judged->why, HasSubstr("no worker has told a step"));
  EXPECT_FALSE(Status().progress);
  Second(/*moves=*/true);
  EXPECT_FALSE(Status().not_judged);
}

TEST_F(JobMachineNotJudgedTest, StatusSaysThatHangsAreNotLookedFor) {
  Run(JobSpec::kIgnoreHang);
  ASSERT_TRUE(Status().not_judged);
  EXPECT_EQ(Status().not_judged->why, "--hang-timeout off");
  EXPECT_TRUE(Status().progress) << "how far they are is known all the same";
}

TEST_F(JobMachineNotJudgedTest, WorkersThatHaveEndedAreNotMissed) {
  Run(JobSpec::kRestartHang);
  for (const char node : {'a', 'b'}) {
    Heartbeat ended;
    ended.progress = NodeProgress{};
    job_->Receive(node, ended);
  }
  EXPECT_FALSE(Status().not_judged);
}

// The debugger was attached because of the hang. Seen red when the verdict named the rank that the
// debugger held.
TEST_F(JobMachineNotJudgedTest, AVerdictWaitsUntilADebuggerHasLetGo) {
  Run(JobSpec::kRestartHang);
  culprit_ = ProcessState::kTraced;
  EXPECT_THAT(StandStill(60), Not(Contains(HasSubstr("hangs"))));
  culprit_ = ProcessState::kStopped;
  EXPECT_THAT(StandStill(3), Contains(HasSubstr("rank 3 on b (pid 201) is stopped")));
}

}  // namespace job_machine_not_judged_test
}  // namespace ddprun
