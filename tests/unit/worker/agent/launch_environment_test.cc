#include "worker/src/agent/launch_environment.h"

#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

namespace ddp::internal {
namespace launch_environment_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Variables = std::map<std::string, std::string>;

Variables Complete() {
  return {{"RANK", "3"},        {"WORLD_SIZE", "8"},      {"LOCAL_RANK", "1"},
          {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}, {"LOCAL_WORLD_SIZE", "2"}};
}

LaunchEnvironment Read(const Variables& variables) {
  return ReadLaunchEnvironment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// The text of the ConfigError for `variables`.
std::string ErrorOf(const Variables& variables) {
  try {
    Read(variables);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

TEST(LaunchEnvironmentTest, WithoutALauncherIsAJobOfOneProcess) {
  const LaunchEnvironment env = Read({{"MASTER_ADDR", "leftover"}});
  EXPECT_EQ(env.rank, 0);
  EXPECT_EQ(env.world_size, 1);
  EXPECT_EQ(env.local_world_size, 1);
}

TEST(LaunchEnvironmentTest, ReadsEverything) {
  Variables variables = Complete();
  variables["DDPRUN_GENERATION"] = "4";
  variables["TORCHELASTIC_RESTART_COUNT"] = "2";
  const LaunchEnvironment env = Read(variables);
  EXPECT_EQ(env.rank, 3);
  EXPECT_EQ(env.world_size, 8);
  EXPECT_EQ(env.local_rank, 1);
  EXPECT_EQ(env.local_world_size, 2);
  EXPECT_EQ(env.master_addr, "a");
  EXPECT_EQ(env.master_port, 29500);
  EXPECT_EQ(env.generation, 4);
  EXPECT_EQ(env.restart_count, 2);
  EXPECT_FALSE(env.agent_hosts_store);
}

TEST(LaunchEnvironmentTest, KnowsThatTorchrunsAgentMayHostTheStore) {
  Variables variables = Complete();
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_TRUE(Read(variables).agent_hosts_store);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_FALSE(Read(variables).agent_hosts_store);
}

TEST(LaunchEnvironmentTest, NamesEveryMissingVariable) {
  EXPECT_THAT(ErrorOf({{"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}),
              HasSubstr("not in the environment: RANK, LOCAL_RANK, MASTER_ADDR."));
  EXPECT_THAT(ErrorOf({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}),
              HasSubstr("not in the environment: MASTER_ADDR, MASTER_PORT."));
}

TEST(LaunchEnvironmentTest, AJobOfOneNeedsNoMaster) {
  EXPECT_EQ(Read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).world_size, 1);
}

TEST(LaunchEnvironmentTest, RefusesContradictions) {
  Variables variables = Complete();
  variables["RANK"] = "8";
  EXPECT_THAT(ErrorOf(variables), AllOf(HasSubstr("RANK=8"), HasSubstr("WORLD_SIZE=8")));

  variables = Complete();
  variables["LOCAL_RANK"] = "2";
  EXPECT_THAT(ErrorOf(variables),
              AllOf(HasSubstr("LOCAL_RANK=2"), HasSubstr("LOCAL_WORLD_SIZE=2")));

  variables = Complete();
  variables["LOCAL_WORLD_SIZE"] = "9";
  EXPECT_THAT(ErrorOf(variables),
              AllOf(HasSubstr("LOCAL_WORLD_SIZE=9"), HasSubstr("WORLD_SIZE=8")));
}

TEST(LaunchEnvironmentTest, RefusesWhatIsNoNumberOrOutOfRange) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"RANK", "-1"},
                                                        {"RANK", "one"},
                                                        {"WORLD_SIZE", "0"},
                                                        {"WORLD_SIZE", "99999999999"},
                                                        {"LOCAL_RANK", "1x"},
                                                        {"MASTER_PORT", "65536"},
                                                        {"MASTER_PORT", "0"}}) {
    Variables variables = Complete();
    variables[name] = value;
    EXPECT_THAT(ErrorOf(variables), HasSubstr(name + "=" + value + ", but expected"));
  }
}

std::chrono::milliseconds TimeoutWith(const Variables& variables) {
  return DefaultTimeout([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchEnvironmentTest, ACollectiveWaitsLongerThanTheJudgeOfHangs) {
  EXPECT_EQ(TimeoutWith({}), std::chrono::minutes(30));
  EXPECT_EQ(TimeoutWith({{"DDPRUN_HANG_LIMIT_MS", "600000"}}), std::chrono::minutes(30));
  EXPECT_EQ(TimeoutWith({{"DDPRUN_HANG_LIMIT_MS", "3600000"}}), std::chrono::hours(2));
}

// Seen red when the timeout was always 480 s: ddprun waits 600 s for the first step.
TEST(LaunchEnvironmentTest, TheWatchdogOfNcclWaitsLongerThanTheJudgeOfHangs) {
  const auto with = [](const char* limit) {
    return WatchdogTimeout([&](const char* name) {
      return std::string(name) == "DDPRUN_HANG_LIMIT_MS" ? limit : nullptr;
    });
  };
  EXPECT_EQ(with(nullptr), std::chrono::seconds(480)) << "libtorch's own";
  EXPECT_EQ(with("60000"), std::chrono::seconds(480));
  EXPECT_EQ(with("600001"), std::chrono::seconds(661));
}

// Seen red when the limit was 5 minutes: waiting ranks threw before ddprun had named the missing
// rank.
TEST(LaunchEnvironmentTest, InitWaitsForRanksLongerThanTheJudgeOfHangs) {
  const auto with = [](std::optional<std::chrono::milliseconds> given, const char* limit) {
    return JoinTimeout(given, [&](const char* name) {
      return std::string(name) == "DDPRUN_HANG_LIMIT_MS" ? limit : nullptr;
    });
  };
  EXPECT_EQ(with({}, nullptr), std::chrono::minutes(5));
  EXPECT_EQ(with({}, "60000"), std::chrono::minutes(5));
  EXPECT_EQ(with({}, "600000"), std::chrono::minutes(11));
  EXPECT_EQ(with(std::chrono::seconds(7), "600000"), std::chrono::seconds(7));
  EXPECT_EQ(ConnectTimeout({}), std::chrono::minutes(5));
  EXPECT_EQ(ConnectTimeout(std::chrono::seconds(7)), std::chrono::seconds(7));
}

}  // namespace launch_environment_test
}  // namespace ddp::internal
