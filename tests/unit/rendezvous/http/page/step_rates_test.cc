#include "rendezvous/http/page/step_rates.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace ddprun::http {
namespace step_rates_test {

using namespace std::chrono_literals;

const TimePoint kStart = TimePoint() + 1h;

TEST(StepRatesTest, NothingIsKeptBeforeTheFirstRate) {
  StepRates rates;
  rates.Add(std::nullopt, kStart);
  EXPECT_TRUE(rates.points().empty());
  rates.Add(8.5, kStart + 1s);
  ASSERT_EQ(rates.points().size(), 1u);
  EXPECT_EQ(rates.points().back().per_second, 8.5);
  EXPECT_EQ(rates.points().back().at, kStart + 1s);
}

TEST(StepRatesTest, WhileNobodyTrainsTheRateIsNone) {
  StepRates rates;
  rates.Add(8.5, kStart);
  rates.Add(std::nullopt, kStart + 5s);
  rates.Add(4, kStart + 10s);
  ASSERT_EQ(rates.points().size(), 3u);
  EXPECT_EQ(rates.points()[1].per_second, 0);
  EXPECT_EQ(rates.points()[2].per_second, 4);
}

TEST(StepRatesTest, ASampleThatComesTooSoonIsLeftOut) {
  StepRates rates;
  rates.Add(1, kStart);
  rates.Add(2, kStart + 4s);
  rates.Add(3, kStart + 4600ms);
  ASSERT_EQ(rates.points().size(), 2u);
  EXPECT_EQ(rates.points().back().per_second, 3);
}

TEST(StepRatesTest, SoManyAreKept) {
  StepRates rates;
  for (int i = 0; i < 1000; ++i) rates.Add(i, kStart + i * 5s);
  EXPECT_EQ(rates.points().size(), StepRates::kKept);
  EXPECT_EQ(rates.points().back().at, kStart + 999 * 5s);
}

}  // namespace step_rates_test
}  // namespace ddprun::http
