#include "launcher/config/log_options.h"

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/config/flags/cli.h"
#include "launcher/config/yaml_config.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace log_options_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Streams kNone{false, false};
constexpr Streams kOut{true, false};
constexpr Streams kErr{false, true};
constexpr Streams kBoth{true, true};

Command ParseWithLogFlags(std::vector<std::string> flags, const FakeHost& host = FakeHost()) {
  flags.push_back("./train");
  std::vector<const char*> argv = {"ddprun"};
  for (const std::string& flag : flags) argv.push_back(flag.c_str());
  return ParseCommandLine(static_cast<int>(argv.size()), argv.data(), host);
}

LogsConfig Logs(const std::vector<std::string>& flags) {
  const Command command = ParseWithLogFlags(flags);
  const auto* run = std::get_if<RunCommand>(&command);
  if (run == nullptr) {
    ADD_FAILURE() << std::get<CommandLineError>(command).message;
    return {};
  }
  return run->config.logs;
}

std::string UsageError(const std::vector<std::string>& flags) {
  const Command command = ParseWithLogFlags(flags);
  const auto* error = std::get_if<CommandLineError>(&command);
  if (error == nullptr) return "taken";
  EXPECT_EQ(error->exit_code, 64);
  return error->message;
}

// The streams of local ranks 0 to `count` - 1 that are shown.
std::vector<Streams> Shown(const LogsConfig& logs, int count) {
  std::vector<Streams> shown;
  for (int i = 0; i < count; ++i) shown.push_back(ShownStreams(logs, i));
  return shown;
}

TEST(StreamChoiceTest, OneNumberIsForAll) {
  EXPECT_EQ(*ParseStreamChoice("0"), StreamChoice(kNone));
  EXPECT_EQ(*ParseStreamChoice("1"), StreamChoice(kOut));
  EXPECT_EQ(*ParseStreamChoice("2"), StreamChoice(kErr));
  EXPECT_EQ(*ParseStreamChoice("3"), StreamChoice(kBoth));
}

TEST(StreamChoiceTest, AMapIsByLocalRankAlsoFromTenOn) {
  using Map = std::map<int, Streams>;
  EXPECT_EQ(*ParseStreamChoice("0:1"), StreamChoice(Map{{0, kOut}}));
  EXPECT_EQ(*ParseStreamChoice("0:3,1:0,10:2,127:1"),
            StreamChoice(Map{{0, kBoth}, {1, kNone}, {10, kErr}, {127, kOut}}));
  EXPECT_EQ(*ParseStreamChoice("2:1,2:3"), StreamChoice(Map{{2, kBoth}}));
}

TEST(StreamChoiceTest, IsPrintedAsItIsRead) {
  for (const char* const text : {"0", "1", "2", "3", "0:1", "0:3,1:0,10:2"}) {
    EXPECT_EQ(FormatStreamChoice(*ParseStreamChoice(text)), text);
  }
}

TEST(StreamChoiceTest, TheWrongPartIsNamed) {
  const auto error = [](const char* text) {
    return std::string(ParseStreamChoice(text).status().message());
  };
  EXPECT_EQ(error("4"), R"("4")");
  EXPECT_EQ(error(""), R"("")");
  EXPECT_EQ(error("both"), R"("both")");
  EXPECT_EQ(error("0:1,1:4,2:1"), R"("1:4" in "0:1,1:4,2:1")");
  EXPECT_EQ(error("0:1,"), R"("" in "0:1,")");
  EXPECT_EQ(error("0:1,3"), R"("3" in "0:1,3")");
  EXPECT_EQ(error("0:1, 1:2"), R"(" 1:2" in "0:1, 1:2")");
  EXPECT_EQ(error("-1:1"), R"("-1:1")");
  EXPECT_EQ(error("0:1:2"), R"("0:1:2")");
  EXPECT_EQ(error("99999999999999999999:1"), R"("99999999999999999999:1")");
}

TEST(LocalRanksTest, AreAListWithOrWithoutSpaces) {
  EXPECT_THAT(*ParseLocalRanks(""), IsEmpty());
  EXPECT_THAT(*ParseLocalRanks("3"), ElementsAre(3));
  EXPECT_THAT(*ParseLocalRanks("10, 0,2,0"), ElementsAre(0, 2, 10));
  EXPECT_EQ(FormatLocalRanks(*ParseLocalRanks("10, 0,2")), "0,2,10");
  EXPECT_EQ(ParseLocalRanks("0,x").status().message(), R"("x" in "0,x")");
  EXPECT_EQ(ParseLocalRanks("0-3").status().message(), R"("0-3")");
}

TEST(ShownStreamsTest, ByDefaultEverythingIsShown) {
  EXPECT_THAT(Shown(Logs({}), 2), ElementsAre(kBoth, kBoth));
  EXPECT_THAT(Shown(Logs({"-r", "0"}), 2), ElementsAre(kBoth, kBoth));
}

TEST(ShownStreamsTest, WhatIsRedirectedIsNotShown) {
  EXPECT_THAT(Shown(Logs({"-r", "3"}), 2), ElementsAre(kNone, kNone));
  EXPECT_THAT(Shown(Logs({"--redirects", "1"}), 2), ElementsAre(kErr, kErr));
  EXPECT_THAT(Shown(Logs({"--redirects=0:1,2:3"}), 3), ElementsAre(kErr, kBoth, kNone));
}

TEST(ShownStreamsTest, TeeWinsOverRedirectAndAloneHidesNothing) {
  EXPECT_THAT(Shown(Logs({"-r", "3", "-t", "0:3,1:2"}), 3), ElementsAre(kBoth, kErr, kNone));
  EXPECT_THAT(Shown(Logs({"-t", "0:1"}), 2), ElementsAre(kBoth, kBoth));
}

TEST(ShownStreamsTest, TheFilterIsAboveBoth) {
  EXPECT_THAT(Shown(Logs({"--local-ranks-filter", "0,2"}), 4),
              ElementsAre(kBoth, kNone, kBoth, kNone));
  EXPECT_THAT(Shown(Logs({"--local_ranks_filter=1", "-r", "1", "-t", "3"}), 2),
              ElementsAre(kNone, kBoth));
}

TEST(LogFlagsTest, BadFormsNameTheFlagThePartAndWhatIsTaken) {
  EXPECT_EQ(UsageError({"-r", "0:1,1:7"}),
            "--redirects: expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or one of these "
            "for each local rank, such as 0:1,1:3 (found \"1:7\" in \"0:1,1:7\")");
  EXPECT_THAT(UsageError({"-t", "x"}), HasSubstr("--tee: expected 0 (none)"));
  EXPECT_EQ(UsageError({"--local-ranks-filter", "0,a"}),
            "--local-ranks-filter: expected local ranks, such as 0,2 (found \"a\" in \"0,a\")");
}

TEST(LogFlagsTest, TorchrunsVariablesAndTheSwitchAreTaken) {
  FakeHost host;
  host.variables = {{"PET_REDIRECTS", "3"}, {"PET_TEE", "1:3"}, {"DDPRUN_COLLAPSE", "1"}};
  const Command command = ParseWithLogFlags({}, host);
  const LogsConfig& logs = std::get<RunCommand>(command).config.logs;
  EXPECT_THAT(Shown(logs, 2), ElementsAre(kNone, kBoth));
  EXPECT_TRUE(logs.collapse);
  EXPECT_TRUE(Logs({"--collapse"}).collapse);
  EXPECT_FALSE(Logs({}).collapse);
}

TEST(LogKeysTest, AJobFileHasThemAll) {
  const auto job = ParseJob(
      "{command: a, logs: {redirects: 3, tee: 0:1, local_ranks_filter: '0,1', collapse: true}}",
      "job.yaml", FakeHost());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(Shown(job->logs, 3), ElementsAre(kOut, kNone, kNone));
  EXPECT_TRUE(job->logs.collapse);
  const auto bad = ParseJob("{command: a, logs: {redirects: 5}}", "job.yaml", FakeHost());
  EXPECT_THAT(std::string(bad.status().message()),
              HasSubstr("job.yaml:1:32: logs.redirects: expected 0 (none)"));
}

TEST(LogKeysTest, TheSizeOfAFileNeedsAUnitAndHasALeast) {
  const auto job = [](const std::string& size) {
    return ParseJob("{command: a, logs: {keep_runs: 3, max_size: " + size + "}}", "job.yaml",
                    FakeHost());
  };
  EXPECT_EQ(job("64MiB")->logs.max_size, 64 << 20);
  EXPECT_EQ(job("64MiB")->logs.keep_runs, 3);
  EXPECT_EQ(job("0")->logs.max_size, 0);
  for (const char* const size : {"100", "1KiB", "2048TiB"}) {
    EXPECT_THAT(std::string(job(size).status().message()),
                HasSubstr("logs.max_size: expected a size with its unit, such as 512KiB, 64MiB or "
                          "1GiB, from 64KiB to 1024TiB, or 0 (found "))
        << size;
  }
}

}  // namespace log_options_test
}  // namespace ddprun
