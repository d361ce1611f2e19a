#include "rendezvous/http/page/step_rates.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ddprun::http {
namespace step_rates_test {

using namespace std::chrono_literals;

const TimePoint kStart = TimePoint() + 1h;

TEST(StepRatesTest, ARateNeedsTwoSamples) {
  StepRates rates;
  rates.Add(100, kStart);
  EXPECT_FALSE(rates.newest());
  rates.Add(150, kStart + 5s);
  EXPECT_FLOAT_EQ(*rates.newest(), 10);
}

TEST(StepRatesTest, ASampleThatComesTooSoonIsLeftOut) {
  StepRates rates;
  rates.Add(0, kStart);
  rates.Add(40, kStart + 4s);
  rates.Add(50, kStart + 5s);
  ASSERT_EQ(rates.points().size(), 1u);
  EXPECT_FLOAT_EQ(*rates.newest(), 10);
}

TEST(StepRatesTest, StepsThatARestartHasLostCountAsNone) {
  StepRates rates;
  rates.Add(500, kStart);
  rates.Add(400, kStart + 5s);
  EXPECT_FLOAT_EQ(*rates.newest(), 0);
  rates.Add(420, kStart + 10s);
  EXPECT_FLOAT_EQ(*rates.newest(), 4);
}

TEST(StepRatesTest, SoManyAreKept) {
  StepRates rates;
  for (int i = 0; i < 1000; ++i) rates.Add(i, kStart + i * 5s);
  EXPECT_EQ(rates.points().size(), StepRates::kKept);
  EXPECT_EQ(rates.points().back().at, kStart + 999 * 5s);
}

}  // namespace step_rates_test
}  // namespace ddprun::http
