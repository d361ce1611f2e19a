#include "rendezvous/service/job/ended_jobs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace ended_jobs_test {

using std::chrono::hours;

JobPtr Job(const std::string& name) {
  return std::make_shared<ServedJob>(name, "", 0, JobMachineOptions());
}

const TimePoint kStart{hours(1000)};

TEST(EndedJobsTest, AJobIsKnownForAWhile) {
  EndedJobs ended({.time = hours(24)});
  EXPECT_EQ(ended.NextDeadline(), std::nullopt);
  const JobPtr first = Job("first");
  const JobPtr second = Job("second");
  ended.Add(first, kStart);
  ended.Add(second, kStart + hours(1));
  EXPECT_EQ(ended.NextDeadline(), kStart + hours(24));
  EXPECT_EQ(ended.TakeSurplus(kStart + hours(23)), nullptr);
  EXPECT_EQ(ended.TakeSurplus(kStart + hours(24)), first);
  EXPECT_EQ(ended.TakeSurplus(kStart + hours(24)), nullptr);
  EXPECT_EQ(ended.TakeSurplus(kStart + hours(25)), second);
}

TEST(EndedJobsTest, OfTooManyTheOldestGo) {
  EndedJobs ended({.jobs = 2});
  std::vector<JobPtr> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(Job(absl::StrCat(i)));
    ended.Add(jobs.back(), kStart);
  }
  EXPECT_EQ(ended.TakeSurplus(kStart), jobs[0]);
  EXPECT_EQ(ended.TakeSurplus(kStart), jobs[1]);
  EXPECT_EQ(ended.TakeSurplus(kStart), nullptr);
}

TEST(EndedJobsTest, OneWhoseNameIsUsedAgainIsPassedOver) {
  EndedJobs ended({.jobs = 1});
  ended.Add(Job("gone"), kStart);
  const JobPtr second = Job("second");
  const JobPtr third = Job("third");
  ended.Add(second, kStart);
  ended.Add(third, kStart);
  EXPECT_EQ(ended.TakeSurplus(kStart), second);
  EXPECT_EQ(ended.AwaitedAgents(), 0u);
}

}  // namespace ended_jobs_test
}  // namespace ddprun
