#include "rendezvous/core/measures/job_counters.h"

#include <gtest/gtest.h>

#include <chrono>

#include "rendezvous/core/measures/histogram.h"
#include "rendezvous/core/measures/step_rate.h"

namespace ddprun {
namespace job_counters_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(HistogramTest, ABoundIsOfItsOwnBucket) {
  Histogram histogram;
  histogram.Add(milliseconds(100));
  histogram.Add(milliseconds(101));
  histogram.Add(seconds(61));
  constexpr std::size_t kTenth = 3;
  ASSERT_EQ(Histogram::kBounds[kTenth], 0.1);
  EXPECT_EQ(histogram.CountUpTo(kTenth - 1), 0u);
  EXPECT_EQ(histogram.CountUpTo(kTenth), 1u);
  EXPECT_EQ(histogram.CountUpTo(Histogram::kBounds.size() - 1), 2u);
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 61.201);
}

TEST(JobCountersTest, PhasesThatOnlyAProgramNamesAreOne) {
  JobCounters counters;
  counters.AddRecovery({Generation{1}, 0, true, {{"stop", 5000}, {"mine", 1}, {"yours", 2}}});
  EXPECT_EQ(counters.recovery.size(), 2u);
  EXPECT_EQ(counters.recovery["stop"].count(), 1u);
  EXPECT_EQ(counters.recovery[JobCounters::kOther].count(), 2u);
}

TEST(StepRateTest, AStandstillLowersItAndLongAgoDoesNotCount) {
  const TimePoint start{};
  StepRate rate;
  EXPECT_FALSE(rate.At(start));
  for (int i = 0; i <= 40; ++i) rate.Take(i * 100, start + seconds(i));
  EXPECT_DOUBLE_EQ(*rate.At(start + seconds(40)), 100);
  for (int i = 41; i <= 80; ++i) rate.Take(4000 + (i - 40) * 10, start + seconds(i));
  EXPECT_DOUBLE_EQ(*rate.At(start + seconds(80)), 10);
  EXPECT_LT(*rate.At(start + seconds(110)), 6);
}

TEST(StepRateTest, OneMomentSaysNothing) {
  StepRate rate;
  rate.Take(5, TimePoint{});
  rate.Take(6, TimePoint{} + milliseconds(10));
  EXPECT_FALSE(rate.At(TimePoint{} + milliseconds(20)));
}

}  // namespace job_counters_test
}  // namespace ddprun
