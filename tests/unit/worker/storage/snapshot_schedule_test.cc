#include "worker/src/storage/snapshot_schedule.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ddp::internal {
namespace snapshot_schedule_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SnapshotScheduleTest, ASnapshotIsMadeAtOnceAsLongAsItsCostIsNotKnown) {
  SnapshotSchedule schedule(0, {});
  EXPECT_EQ(schedule.steps(), 1);
  schedule.StepTook(milliseconds(10));
  EXPECT_EQ(schedule.steps(), 1);
}

TEST(SnapshotScheduleTest, TheCostStaysBelowOnePercent) {
  for (const int step : {1, 10, 250, 10'000}) {
    for (const int stall : {0, 1, 37, 5'000}) {
      for (const int background : {0, 2, 90}) {
        SnapshotSchedule schedule(0, {});
        schedule.StepTook(milliseconds(step));
        schedule.SnapshotTook(milliseconds(stall), milliseconds(background));
        EXPECT_LE((stall + background) * 100, step * schedule.steps());
        if (schedule.steps() > 1) {  // not rarer than necessary
          EXPECT_GT((stall + background) * 100, step * (schedule.steps() - 1));
        }
      }
    }
  }
}

TEST(SnapshotScheduleTest, StepsThatBecomeSlowerMakeSnapshotsMoreFrequent) {
  SnapshotSchedule schedule(0, {});
  for (int i = 0; i < 100; ++i) schedule.StepTook(milliseconds(1));
  schedule.SnapshotTook(milliseconds(1), milliseconds(0));
  EXPECT_NEAR(static_cast<double>(schedule.steps()), 100, 1);
  for (int i = 0; i < 200; ++i) schedule.StepTook(milliseconds(10));
  EXPECT_NEAR(static_cast<double>(schedule.steps()), 10, 1);
}

TEST(SnapshotScheduleTest, AGivenNumberOfStepsCountsAlone) {
  SnapshotSchedule schedule(7, seconds(1));
  schedule.StepTook(milliseconds(1));
  schedule.SnapshotTook(seconds(5), seconds(5));
  EXPECT_EQ(schedule.steps(), 7);
}

TEST(SnapshotScheduleTest, AGivenTimeBecomesSteps) {
  SnapshotSchedule schedule(0, seconds(1));
  for (int i = 0; i < 50; ++i) schedule.StepTook(milliseconds(20));
  schedule.SnapshotTook(seconds(5), seconds(5));
  EXPECT_EQ(schedule.steps(), 50);
}

}  // namespace snapshot_schedule_test
}  // namespace ddp::internal
