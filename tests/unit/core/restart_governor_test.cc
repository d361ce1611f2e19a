#include "rendezvous/machine/restart_governor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "rendezvous/core/root_cause.h"

namespace ddprun {
namespace restart_governor_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

RootCause Killed() {
  RootCause cause;
  cause.failure.exit.status = ExitStatus{0, SIGKILL, false};
  return cause;
}

RootCause ExitedWith(int code, std::string kind = "") {
  RootCause cause;
  cause.failure.exit.status = ExitStatus{code, 0, false};
  cause.failure.exit.error_kind = std::move(kind);
  return cause;
}

class RestartGovernorTest : public testing::Test {
 protected:
  static RestartPolicy Policy(int max_restarts) { return {max_restarts, std::nullopt, {}}; }

  RestartGovernor::Decision End(RestartGovernor* governor, bool made_step,
                                const RootCause& cause = Killed(), Duration ran = seconds(1)) {
    now_ += ran;
    return governor->OnGenerationEnded({cause, made_step, ran}, now_);
  }

  TimePoint now_{hours(1)};
};

TEST_F(RestartGovernorTest, GrantsTheBudgetAndNoMore) {
  RestartGovernor governor(Policy(2), 1);
  EXPECT_TRUE(End(&governor, true).restart);
  EXPECT_TRUE(End(&governor, true).restart);
  const auto last = End(&governor, true);
  EXPECT_FALSE(last.restart);
  EXPECT_EQ(last.reason, "no restart is left (2 of 2 used)");
  EXPECT_EQ(governor.restarts_left(now_), 0);
  EXPECT_EQ(governor.restarts_used(), 2);
}

TEST_F(RestartGovernorTest, WithinAWindowOnlyRecentRestartsCount) {
  RestartGovernor governor({2, hours(1), {}}, 1);
  EXPECT_TRUE(End(&governor, true).restart);
  EXPECT_TRUE(End(&governor, true, Killed(), minutes(50)).restart);
  EXPECT_EQ(governor.restarts_left(now_), 0);
  now_ += minutes(11);  // the first is over an hour old
  EXPECT_EQ(governor.restarts_left(now_), 1);
  EXPECT_TRUE(End(&governor, true).restart);
  const auto last = End(&governor, true);
  EXPECT_FALSE(last.restart);
  EXPECT_THAT(last.reason, HasSubstr("2 of 2 used within the window"));
  EXPECT_EQ(governor.restarts_used(), 3);
}

TEST_F(RestartGovernorTest, TheFirstRestartIsImmediateEvenWithoutAStep) {
  RestartGovernor governor(Policy(9), 1);
  EXPECT_EQ(End(&governor, false).delay, Duration{});
}

TEST_F(RestartGovernorTest, AGenerationThatMadeAStepIsFollowedAtOnce) {
  RestartGovernor governor(Policy(9), 1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(End(&governor, true).delay, Duration{});
}

TEST_F(RestartGovernorTest, DelaysDoubleWithJitterUpToAMinute) {
  RestartGovernor governor(Policy(100), 7);
  End(&governor, false);
  Duration expected = milliseconds(200);  // the second generation in a row without a step
  for (int i = 0; i < 20; ++i) {
    const Duration delay = End(&governor, false).delay;
    EXPECT_GE(delay, expected / 2) << i;
    EXPECT_LE(delay, expected) << i;
    expected = std::min<Duration>(expected * 2, seconds(60));
  }
}

TEST_F(RestartGovernorTest, JitterDependsOnTheSeedAlone) {
  const auto delays = [this](std::uint64_t seed) {
    RestartGovernor governor(Policy(100), seed);
    std::vector<Duration> all;
    for (int i = 0; i < 8; ++i) all.push_back(End(&governor, false).delay);
    return all;
  };
  EXPECT_EQ(delays(1), delays(1));
  EXPECT_NE(delays(1), delays(2));
}

TEST_F(RestartGovernorTest, AStepResetsTheDelay) {
  RestartGovernor governor(Policy(100), 1);
  for (int i = 0; i < 2; ++i) End(&governor, false);
  EXPECT_EQ(End(&governor, true).delay, Duration{});
  EXPECT_LE(End(&governor, false).delay, milliseconds(100));
}

TEST_F(RestartGovernorTest, AJobThatReportedStepsEndsAfterThreeFruitlessGenerations) {
  RestartGovernor governor(Policy(100), 1);
  EXPECT_TRUE(End(&governor, true).restart);
  EXPECT_TRUE(End(&governor, false).restart);
  EXPECT_TRUE(End(&governor, false).restart);
  const auto last = End(&governor, false);
  EXPECT_FALSE(last.restart);
  EXPECT_THAT(last.reason, HasSubstr("3 generations in a row made no step"));
}

TEST_F(RestartGovernorTest, AJobThatReportsNoStepsUsesAllItsRestarts) {
  RestartGovernor governor(Policy(10), 1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(End(&governor, false).restart) << i;
  EXPECT_FALSE(End(&governor, false).restart);
}

TEST_F(RestartGovernorTest, AJobThatReportsNoStepsButRanLongIsNotDelayed) {
  RestartGovernor governor(Policy(10), 1);
  End(&governor, false);
  EXPECT_EQ(End(&governor, false, Killed(), minutes(1)).delay, Duration{});
}

TEST_F(RestartGovernorTest, MembershipChangesCostNothing) {
  RestartGovernor governor(Policy(0), 1);
  for (const auto kind : {RootCause::Kind::kNodeLost, RootCause::Kind::kNodeLeft}) {
    RootCause cause;
    cause.kind = kind;
    const auto decision = End(&governor, false, cause);
    EXPECT_TRUE(decision.restart);
    EXPECT_EQ(decision.delay, Duration{});
  }
  EXPECT_EQ(governor.restarts_used(), 0);
}

TEST_F(RestartGovernorTest, ATakenPortCostsNothingFiveTimes) {
  RestartGovernor governor(Policy(0), 1);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(End(&governor, false, ExitedWith(1, "bind")).restart);
  EXPECT_EQ(governor.restarts_used(), 0);
  EXPECT_FALSE(End(&governor, false, ExitedWith(1, "bind")).restart);
}

TEST_F(RestartGovernorTest, SomeExitCodesEndTheJobAtOnce) {
  RestartGovernor governor({5, std::nullopt, {3, 42}}, 1);
  EXPECT_TRUE(End(&governor, true, ExitedWith(1)).restart);
  const auto decision = End(&governor, true, ExitedWith(42));
  EXPECT_FALSE(decision.restart);
  EXPECT_THAT(decision.reason, HasSubstr("exit code 42 is in restart.never_on"));
}

TEST_F(RestartGovernorTest, ACommandThatCannotBeExecutedEndsTheJobAtOnce) {
  RestartGovernor governor(Policy(5), 1);
  const auto decision = End(&governor, false, ExitedWith(127, kErrorExec));
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.reason, "a restart cannot cure it");
}

}  // namespace restart_governor_test
}  // namespace ddprun
