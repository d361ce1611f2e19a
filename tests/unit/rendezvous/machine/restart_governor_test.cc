#include "rendezvous/machine/restart_governor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "rendezvous/core/root_cause.h"
#include "worker/contract/control.h"

namespace ddprun {
namespace restart_governor_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

RootCause Signalled(int signo, bool oom_killed = false) {
  RootCause cause;
  cause.failure.exit.status = ExitStatus{0, signo, false};
  cause.failure.exit.oom_killed = oom_killed;
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

  // Ends a generation. `made_step`: it reached a higher step than all generations before.
  RestartGovernor::Decision End(RestartGovernor* governor, bool made_step,
                                const RootCause& cause = ExitedWith(1), Duration ran = seconds(1)) {
    RestartGovernor::Facts facts{cause, std::nullopt, false, ran, std::nullopt};
    if (made_step) facts.step = ++step_;
    return End(governor, facts);
  }
  RestartGovernor::Decision End(RestartGovernor* governor, const RestartGovernor::Facts& facts) {
    now_ += facts.ran;
    return governor->OnGenerationEnded(facts, now_);
  }
  // The governor of a job that has just crashed twice: a restart after another crash is delayed.
  RestartGovernor AfterTwoCrashes() {
    RestartGovernor governor(Policy(100), 1);
    for (int i = 0; i < 2; ++i) End(&governor, false);
    return governor;
  }

  std::int64_t step_ = 0;
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
  EXPECT_TRUE(End(&governor, true, ExitedWith(1), minutes(50)).restart);
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
  EXPECT_EQ(End(&governor, false, ExitedWith(1), minutes(1)).delay, Duration{});
}

TEST_F(RestartGovernorTest, WhatCameFromOutsideIsNoCrashLoop) {
  for (const RootCause& cause :
       {Signalled(SIGKILL), Signalled(SIGTERM), Signalled(SIGINT), ExitedWith(1, "collective")}) {
    RestartGovernor governor = AfterTwoCrashes();
    EXPECT_EQ(End(&governor, false, cause).delay, Duration{}) << Describe(cause);
    // It does not end a crash loop either.
    EXPECT_GE(End(&governor, false).delay, milliseconds(200));
  }
}

TEST_F(RestartGovernorTest, WhatAWorkerDidToItselfIs) {
  for (const RootCause& cause : {Signalled(SIGSEGV), Signalled(SIGABRT), ExitedWith(137),
                                 Signalled(SIGKILL, /*oom_killed=*/true)}) {
    RestartGovernor governor = AfterTwoCrashes();
    EXPECT_GE(End(&governor, false, cause).delay, milliseconds(200)) << Describe(cause);
  }
}

TEST_F(RestartGovernorTest, OneThatCrashesAtTheSameStepEachTimeIsACrashLoop) {
  RestartGovernor governor(Policy(100), 1);
  RestartGovernor::Facts facts{ExitedWith(1), 107, false, seconds(1), std::nullopt};
  EXPECT_EQ(End(&governor, facts).delay, Duration{});
  EXPECT_GT(End(&governor, facts).delay, Duration{});
  EXPECT_GE(End(&governor, facts).delay, milliseconds(100));
  EXPECT_TRUE(End(&governor, facts).restart) << "it makes steps, so it may use all its restarts";
  facts.step = 108;
  EXPECT_EQ(End(&governor, facts).delay, Duration{});
}

TEST_F(RestartGovernorTest, ANewStateIsProgress) {
  RestartGovernor governor = AfterTwoCrashes();
  const auto decision =
      End(&governor, {ExitedWith(1), std::nullopt, /*new_state=*/true, seconds(1), std::nullopt});
  EXPECT_EQ(decision.delay, Duration{});
}

TEST_F(RestartGovernorTest, SoonIsMeasuredByTheStart) {
  const auto delay = [this](Duration ran, std::optional<Duration> start) {
    RestartGovernor governor = AfterTwoCrashes();
    return End(&governor, {ExitedWith(1), std::nullopt, false, ran, start}).delay;
  };
  EXPECT_GT(delay(seconds(59), std::nullopt), Duration{});
  EXPECT_EQ(delay(seconds(6), seconds(2)), Duration{});
  EXPECT_GT(delay(seconds(5), seconds(2)), Duration{});
  EXPECT_GT(delay(minutes(2), seconds(50)), Duration{}) << "it loads for so long";
  EXPECT_GT(delay(milliseconds(400), milliseconds(10)), Duration{}) << "too little to tell by";
  EXPECT_EQ(delay(seconds(3), milliseconds(10)), Duration{});
}

TEST_F(RestartGovernorTest, AStartThatWasNotSeenTookAsLongAsTheLastThatWas) {
  RestartGovernor governor = AfterTwoCrashes();
  End(&governor, {ExitedWith(1), std::nullopt, false, seconds(6), seconds(2)});
  EXPECT_EQ(End(&governor, false, ExitedWith(1), seconds(7)).delay, Duration{});
  EXPECT_LE(End(&governor, false, ExitedWith(1), seconds(5)).delay, milliseconds(100));
}

TEST_F(RestartGovernorTest, MembershipChangesMayBeLimitedWithinTheWindow) {
  RestartGovernor governor({0, hours(1), {}, 2}, 1);
  RootCause cause;
  cause.kind = RootCause::Kind::kNodeLost;
  EXPECT_TRUE(End(&governor, false, cause, minutes(1)).restart);
  EXPECT_EQ(End(&governor, false, cause, minutes(1)).reason,
            "membership change 2 of 2 within the window: no restart is spent");
  RestartGovernor later({0, hours(1), {}, 2}, governor.Record(now_), now_);
  const auto last = End(&later, false, cause, minutes(1));
  EXPECT_FALSE(last.restart);
  EXPECT_EQ(last.reason,
            "no membership change is left (2 of 2 used within the window: "
            "restart.max_membership_changes)");
  EXPECT_TRUE(End(&governor, false, cause, minutes(61)).restart);
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

// Red if only a worker's failure ends the row.
TEST_F(RestartGovernorTest, ALostNodeEndsTheRowOfTakenPorts) {
  RestartGovernor governor(Policy(0), 1);
  RootCause lost;
  lost.kind = RootCause::Kind::kNodeLost;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(End(&governor, false, ExitedWith(1, "bind")).restart) << i;
    EXPECT_TRUE(End(&governor, true, lost).restart);
  }
}

// Red if a generation that ends by a taken port is left out whole.
TEST_F(RestartGovernorTest, StepsBeforeATakenPortEndTheRowOfCrashes) {
  RestartGovernor governor(Policy(100), 1);
  EXPECT_TRUE(End(&governor, true).restart);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(End(&governor, false).restart);
  EXPECT_TRUE(End(&governor, true, ExitedWith(1, "bind")).restart);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(End(&governor, false).restart);
  EXPECT_FALSE(End(&governor, false).restart);
}

// Red if IsCrashLoop() counts a taken port as a crash without a step.
TEST_F(RestartGovernorTest, ATakenPortIsNoCrashOfALoop) {
  RestartGovernor governor(Policy(100), 1);
  EXPECT_TRUE(End(&governor, true).restart);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(End(&governor, false, ExitedWith(1, "bind")).restart);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(End(&governor, false).restart);
  EXPECT_FALSE(End(&governor, false).restart);
}

TEST_F(RestartGovernorTest, APortThatAPythonWorkerFindsTakenCostsNothingFiveTimes) {
  RestartGovernor governor(Policy(0), 1);
  RootCause cause = ExitedWith(1);
  cause.failure.exit.stderr_tail = {"  File \"train.py\", line 1, in <module>",
                                    "OSError: [Errno 98] Address already in use"};
  for (int i = 0; i < 5; ++i) {
    const auto decision = End(&governor, false, cause);
    EXPECT_TRUE(decision.restart);
    EXPECT_EQ(decision.delay, Duration{});
  }
  EXPECT_EQ(governor.restarts_used(), 0);
  EXPECT_FALSE(End(&governor, false, cause).restart);
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

TEST_F(RestartGovernorTest, AStateThatCannotBeReadEndsTheJobAtOnce) {
  RestartGovernor governor(Policy(5), 1);
  const auto decision = End(&governor, true, ExitedWith(1, control::kErrorState));
  EXPECT_FALSE(decision.restart);
  EXPECT_THAT(decision.reason, HasSubstr("the state of the training cannot be read"));
}

}  // namespace restart_governor_test
}  // namespace ddprun
