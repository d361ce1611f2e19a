// Tests JobMachine with workers that have sent BYE and do not end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "rendezvous/machine/job_machine.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"
#include "tests/unit/rendezvous/machine/job_machine_hang_job.h"

namespace ddprun {
namespace job_machine_leaving_test {

using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class JobMachineLeavingTest : public JobMachineHangTest {};

// Static destructors of the worker hang. Seen red when a worker was no longer judged after its BYE.
TEST_F(JobMachineLeavingTest, ARankThatDoesNotEndAfterItsByeIsReportedOnce) {
  Run(JobSpec::kRestartHang);
  said_bye_ = true;
  EXPECT_THAT(StandStill(99), Not(Contains(HasSubstr("hangs"))));
  const auto said = StandStill(60);
  EXPECT_THAT(said, Not(Contains(HasSubstr("Stop"))));
  EXPECT_EQ(std::count_if(said.begin(), said.end(),
                          [](const std::string& line) {
                            return line.starts_with("b<-") &&
                                   line.find(
                                       "rank 3 on b (pid 201) said BYE 99.0 s ago and has "
                                       "not ended") != std::string::npos &&
                                   line.find("all have said BYE") != std::string::npos;
                          }),
            1);
  const JobStatus status = job_->machine().Status(job_->now());
  ASSERT_TRUE(status.progress);
  EXPECT_THAT(status.progress->hang, HasSubstr("has not ended"));
}

TEST_F(JobMachineLeavingTest, WhileOtherRanksTrainOneThatHasSaidByeIsNotJudged) {
  Run(JobSpec::kRestartHang);
  for (int i = 0; i < 300; ++i) {
    job_->Advance(seconds(1));
    Heartbeat moves;
    moves.progress = NodeProgress{2, {}, {""}};
    job_->Receive('a', moves);
    Heartbeat leaving;
    leaving.progress.emplace().leaving_workers = {{LocalRank{1}, 201, seconds(i + 1)}};
    job_->Receive('b', leaving);
  }
  EXPECT_THAT(job_->Take(), Not(Contains(HasSubstr("hangs"))));
}

}  // namespace job_machine_leaving_test
}  // namespace ddprun
