#include "launcher/text/event_position.h"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace event_position_test {

std::string EventAt(const std::string& second, const std::string& job) {
  return "{\"time\":\"2026-11-26T20:00:" + second + "Z\",\"event\":\"joined\",\"job\":\"" + job +
         "\"}";
}

TEST(EventPositionTest, GoesOnALittleBeforeTheNewestEventWithoutALineTwice) {
  EventPosition position;
  EXPECT_EQ(position.since_ms(), 0);
  EXPECT_TRUE(position.IsNew(EventAt("01.000", "a")));
  EXPECT_TRUE(position.IsNew(EventAt("09.000", "a")));
  EXPECT_TRUE(position.IsNew(EventAt("09.000", "b"))) << "another one in the same millisecond";
  EXPECT_EQ(position.since_ms() % 60'000, 7'000);
  EXPECT_FALSE(position.IsNew(EventAt("09.000", "a")));
  EXPECT_TRUE(position.IsNew(EventAt("08.500", "a"))) << "by a clock that is behind";
  EXPECT_EQ(position.since_ms() % 60'000, 7'000) << "never goes back";
}

TEST(EventPositionTest, ALineWithoutATimeIsShown) {
  EventPosition position;
  EXPECT_TRUE(position.IsNew("no JSON"));
  EXPECT_EQ(position.since_ms(), 0);
}

}  // namespace event_position_test
}  // namespace ddprun
