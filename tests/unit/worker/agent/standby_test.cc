#include "worker/src/agent/standby.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace ddp::internal {
namespace standby_test {

// Runs in a process of its own, because it changes the environment.
[[noreturn]] void Check(bool ok) { std::_Exit(ok ? 0 : 1); }

TEST(StandbyDeathTest, TheEnvironmentIsWhatCameAndNothingElse) {
  EXPECT_EXIT(
      {
        setenv("DDP_TEST_OLD", "1", 1);
        const char* const old = std::getenv("DDP_TEST_OLD");
        ReplaceEnvironment(std::string("A=1\0EMPTY=\0B=x=y\0", 17));
        int count = 0;
        for (char** entry = environ; *entry != nullptr; ++entry) ++count;
        Check(count == 3 && std::string(std::getenv("A")) == "1" &&
              std::string(std::getenv("EMPTY")).empty() && std::string(std::getenv("B")) == "x=y" &&
              std::getenv("DDP_TEST_OLD") == nullptr && std::string(old) == "1");
      },
      testing::ExitedWithCode(0), "");
}

TEST(StandbyDeathTest, TheEnvironmentCanBeChangedAfterwards) {
  EXPECT_EXIT(
      {
        ReplaceEnvironment(std::string("A=1\0B=2\0", 8));
        setenv("A", "a longer one", 1);
        setenv("NEW", "3", 1);
        unsetenv("B");
        Check(std::string(std::getenv("A")) == "a longer one" &&
              std::string(std::getenv("NEW")) == "3" && std::getenv("B") == nullptr);
      },
      testing::ExitedWithCode(0), "");
}

TEST(StandbyDeathTest, OnlyTheVariableMakesAStandby) {
  EXPECT_EXIT(
      {
        unsetenv("DDPRUN_STANDBY");
        bool ok = !IsStandby();
        setenv("DDPRUN_STANDBY", "0", 1);
        ok = ok && !IsStandby();
        setenv("DDPRUN_STANDBY", "1", 1);
        Check(ok && IsStandby());
      },
      testing::ExitedWithCode(0), "");
}

TEST(StandbyTest, WithoutAnAgentItSaysSoInsteadOfWaiting) {
  ControlClient client("/nonexistent/socket");
  EXPECT_THROW(WaitAsStandby(&client), std::runtime_error);
}

}  // namespace standby_test
}  // namespace ddp::internal
