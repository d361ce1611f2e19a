#include "rendezvous/leadership/takeover_pacing.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace takeover_pacing_test {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr TimePoint kBegin{std::chrono::hours(1)};

Duration WaitOf(int ousted) {
  TakeoverPacing pacing(ousted);
  pacing.OnRoleBegan(kBegin);
  return pacing.Wait(kBegin);
}

// Fails without an upper bound.
TEST(TakeoverPacingTest, TwoAtOnceThenFromOneSecondToThirty) {
  EXPECT_EQ(WaitOf(0), Duration{});
  EXPECT_EQ(WaitOf(1), Duration{});
  EXPECT_EQ(WaitOf(2), seconds(1));
  EXPECT_EQ(WaitOf(3), seconds(2));
  EXPECT_EQ(WaitOf(6), seconds(16));
  EXPECT_EQ(WaitOf(7), seconds(30));
  EXPECT_EQ(WaitOf(1'000'000), seconds(30));
  EXPECT_EQ(WaitOf(-1), Duration{});
}

// Fails if the beginning of a new role is ignored.
TEST(TakeoverPacingTest, CountsOnWhereItWasOustedSoon) {
  TakeoverPacing pacing(2);
  pacing.OnRoleBegan(kBegin);                // stands by
  pacing.OnRoleBegan(kBegin + seconds(50));  // leads
  EXPECT_EQ(pacing.OustedAgain(kBegin + seconds(100)), 3);
}

// Fails if the count goes on.
TEST(TakeoverPacingTest, AfterAMinuteOfEitherRoleItCountsAnew) {
  TakeoverPacing led(5);
  led.OnRoleBegan(kBegin);
  EXPECT_EQ(led.OustedAgain(kBegin + minutes(1)), 1);

  TakeoverPacing stood_by(5);
  stood_by.OnRoleBegan(kBegin);
  EXPECT_EQ(stood_by.Wait(kBegin + minutes(1)), Duration{});
  stood_by.OnRoleBegan(kBegin + minutes(1));
  EXPECT_EQ(stood_by.OustedAgain(kBegin + minutes(1) + seconds(1)), 1);
}

}  // namespace takeover_pacing_test
}  // namespace ddprun
