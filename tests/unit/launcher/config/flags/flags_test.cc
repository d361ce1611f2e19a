// Rules for every row of the tables of flags.
#include "launcher/config/flags/flags.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/config/job_keys.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace flags_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

FlagReading ReadRun(const std::vector<std::string>& arguments, const FakeHost& host = {}) {
  return ReadFlags(RunFlags(), arguments, Positionals::kEndOptions, host);
}

std::string Underscored(const FlagSpec& flag) {
  return absl::StrReplaceAll(flag.name, {{"-", "_"}});
}

TEST(FlagTableTest, NamesAndLettersAreUnique) {
  for (const auto flags : {RunFlags(), RendezvousFlags(), ValidateFlags()}) {
    std::set<std::string> names;
    std::set<char> letters;
    for (const FlagSpec& flag : flags) {
      EXPECT_TRUE(names.insert(std::string(flag.name)).second) << flag.name;
      EXPECT_TRUE(flag.letter == 0 || letters.insert(flag.letter).second) << flag.letter;
      EXPECT_FALSE(flag.help.empty()) << flag.name;
    }
  }
}

TEST(FlagTableTest, HelpBeginsWithTheFlagsThatEverybodyUses) {
  std::vector<std::string> first;
  for (const FlagSpec& flag : RunFlags()) {
    if (!flag.group.empty()) break;
    first.emplace_back(flag.name);
  }
  EXPECT_THAT(first,
              ElementsAre("config", "nnodes", "nproc-per-node", "standalone", "rdzv-endpoint",
                          "rdzv-id", "max-restarts", "log-dir", "dry-run", "help"));
  const std::string text = DescribeFlags(RunFlags());
  std::size_t at = 0;
  for (const char* const group :
       {"\nJob:\n", "\nRendezvous:\n", "\nRestarts and stops:\n", "\nLogs:\n", "\nSecurity:\n",
        "\nSlurm", "\nDebugging:\n", "\nNot supported yet: "}) {
    ASSERT_NE(text.find(group, at), std::string::npos) << group;
    at = text.find(group, at);
  }
}

TEST(FlagTableTest, EveryKeyThatAFlagSetsExists) {
  for (const FlagSpec& flag : RunFlags()) {
    const bool sets = flag.effect == FlagEffect::kSetsKey ||
                      flag.effect == FlagEffect::kMaySetKey ||
                      flag.effect == FlagEffect::kSetsSeconds;
    EXPECT_EQ(FindJobKey(flag.key) != nullptr, sets) << flag.name;
  }
}

TEST(FlagReaderTest, EveryFlagIsTakenWithDashesOrUnderscores) {
  for (const FlagSpec& flag : RunFlags()) {
    for (const std::string& name : {std::string(flag.name), Underscored(flag)}) {
      std::vector<std::string> arguments = {"--" + name};
      if (!flag.IsSwitch()) arguments.push_back("1");
      arguments.push_back("./train");
      const FlagReading reading = ReadRun(arguments);
      if (flag.effect == FlagEffect::kRefused) {
        EXPECT_THAT(reading.errors,
                    ElementsAre(absl::StrCat("--", flag.name,
                                             ": not supported yet by this version; ", flag.help)));
      } else {
        EXPECT_THAT(reading.errors, IsEmpty()) << name;
        EXPECT_THAT(reading.rest, ElementsAre("./train")) << name;
        EXPECT_EQ(reading.given.size(), flag.effect == FlagEffect::kImmediate ? 0U : 1U) << name;
      }
    }
  }
}

TEST(FlagReaderTest, EveryFlagReadsItsTwoVariables) {
  for (const FlagSpec& flag : RunFlags()) {
    const std::string suffix = absl::AsciiStrToUpper(Underscored(flag));
    for (const std::string& name : {"PET_" + suffix, "DDPRUN_" + suffix}) {
      FakeHost host;
      host.variables[name] = "1";
      const FlagReading reading = ReadRun({}, host);
      if (flag.effect == FlagEffect::kRefused) {
        EXPECT_THAT(reading.errors, ElementsAre(testing::StartsWith(name + ": not supported yet")));
      } else if (flag.effect == FlagEffect::kImmediate) {
        EXPECT_THAT(reading.given, IsEmpty());
        EXPECT_FALSE(reading.immediate_help || reading.immediate_version) << name;
      } else {
        ASSERT_EQ(reading.given.size(), 1U) << name;
        EXPECT_EQ(reading.given[0].origin.place, name);
        EXPECT_EQ(reading.given[0].origin.source, Source::kEnvironment);
      }
    }
  }
}

TEST(FlagReaderTest, FlagWinsOverDdprunOverPet) {
  FakeHost host;
  host.variables = {{"DDPRUN_ROLE", "own"}, {"PET_ROLE", "torchruns"}};
  EXPECT_EQ(ReadRun({"--role", "flag"}, host).Find("role")->value, "flag");
  EXPECT_EQ(ReadRun({}, host).Find("role")->value, "own");
  host.variables.erase("DDPRUN_ROLE");
  EXPECT_EQ(ReadRun({}, host).Find("role")->value, "torchruns");
}

TEST(FlagReaderTest, EmptyVariableIsNotSet) {
  FakeHost host;
  host.variables = {{"DDPRUN_ROLE", ""}, {"PET_ROLE", "torchruns"}, {"PET_NODE_RANK", ""}};
  EXPECT_EQ(ReadRun({}, host).Find("role")->value, "torchruns");
  EXPECT_THAT(ReadRun({}, host).errors, IsEmpty());
}

TEST(FlagReaderTest, SwitchesCanBeTurnedOff) {
  FakeHost host;
  host.variables["PET_STANDALONE"] = "0";
  EXPECT_FALSE(ReadRun({}, host).IsOn("standalone"));
  host.variables["PET_STANDALONE"] = "1";
  EXPECT_TRUE(ReadRun({}, host).IsOn("standalone"));
  EXPECT_FALSE(ReadRun({"--standalone=false"}, host).IsOn("standalone"));
  host.variables["PET_STANDALONE"] = "maybe";
  EXPECT_THAT(ReadRun({}, host).errors,
              ElementsAre("PET_STANDALONE: expected true or false (found \"maybe\")"));
}

TEST(FlagReaderTest, ValueFollowsAfterSpaceOrEqualsSign) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--config", "a.yaml"}, {"--config=a.yaml"}, {"-c", "a.yaml"}, {"-ca.yaml"}}) {
    EXPECT_EQ(ReadRun(arguments).Find("config")->value, "a.yaml");
  }
  EXPECT_EQ(ReadRun({"--rdzv-conf=a=1,b=2"}).Find("rdzv-conf")->value, "a=1,b=2");
  EXPECT_EQ(ReadRun({"--rdzv-endpoint", "[::1]:29400"}).Find("rdzv-endpoint")->value,
            "[::1]:29400");
  EXPECT_EQ(ReadRun({"--max-restarts", "-1"}).Find("max-restarts")->value, "-1");
}

TEST(FlagReaderTest, LastOfSeveralWins) {
  EXPECT_EQ(ReadRun({"--role", "a", "--role=b"}).Find("role")->value, "b");
}

TEST(FlagReaderTest, MissingValueIsAnError) {
  EXPECT_THAT(ReadRun({"--role"}).errors, ElementsAre("--role: expected NAME (found nothing)"));
  EXPECT_THAT(ReadRun({"-vc"}).errors, ElementsAre("-vc: expected FILE (found nothing)"));
  EXPECT_THAT(ReadRun({"--role", "--", "./train"}).errors,
              ElementsAre("--role: expected NAME (found --)"));
  EXPECT_THAT(ReadRun({"--role", "--log_dir", "x"}).errors,
              ElementsAre("--role: expected NAME (found --log_dir)"));
}

TEST(FlagReaderTest, EmptyValueDoesNotSwallowTheNextArgument) {
  const FlagReading reading = ReadRun({"--role=", "./train", "--name="});
  EXPECT_EQ(reading.Find("role")->value, "");
  EXPECT_THAT(reading.rest, ElementsAre("./train", "--name="));
  EXPECT_EQ(ReadRun({"--role", "", "./train"}).Find("role")->value, "");
}

TEST(FlagReaderTest, FirstArgumentEndsOptions) {
  const FlagReading reading =
      ReadRun({"--nnodes", "1", "./train", "--role", "x", "--", "--zebra", "-v"});
  EXPECT_THAT(reading.errors, IsEmpty());
  EXPECT_THAT(reading.rest, ElementsAre("./train", "--role", "x", "--", "--zebra", "-v"));
  EXPECT_EQ(reading.Find("role"), nullptr);
}

TEST(FlagReaderTest, TwoDashesEndOptions) {
  EXPECT_THAT(ReadRun({"-v", "--", "--odd-program", "--role"}).rest,
              ElementsAre("--odd-program", "--role"));
  EXPECT_THAT(ReadRun({"--", "--", "x"}).rest, ElementsAre("--", "x"));
}

TEST(FlagReaderTest, UnknownFlagIsAnErrorWithTheNearestName) {
  EXPECT_THAT(ReadRun({"--nproc_per_nod", "2", "./a"}).errors,
              ElementsAre("--nproc_per_nod: unknown flag; did you mean --nproc-per-node?"));
  EXPECT_THAT(ReadRun({"--nproc=2", "./a"}).errors,
              ElementsAre("--nproc: unknown flag; did you mean --nproc-per-node?"));
  EXPECT_THAT(ReadRun({"--zebra", "./a"}).errors, ElementsAre("--zebra: unknown flag"));
  EXPECT_THAT(ReadRun({"-Z", "./a"}).errors, ElementsAre("-Z: unknown flag"));
}

TEST(FlagReaderTest, OptionsMayFollowTheArgumentsOfASubcommand) {
  const FlagReading reading = ReadFlags(ValidateFlags(), {"job.yaml", "--json", "--zebra"},
                                        Positionals::kAnywhere, FakeHost());
  EXPECT_THAT(reading.rest, ElementsAre("job.yaml"));
  EXPECT_TRUE(reading.IsOn("json"));
  EXPECT_THAT(reading.errors, ElementsAre("--zebra: unknown flag"));
}

TEST(FlagReaderTest, LettersStandForTheirFlags) {
  EXPECT_EQ(ReadRun({"-r", "3", "./a"}).Find("redirects")->value, "3");
  EXPECT_EQ(ReadRun({"-t", "0:1", "./a"}).Find("tee")->value, "0:1");
}

TEST(DescribeFlagsTest, NamesEveryFlag) {
  for (const auto flags : {RunFlags(), RendezvousFlags(), ValidateFlags()}) {
    const std::string text = DescribeFlags(flags);
    for (const FlagSpec& flag : flags) EXPECT_THAT(text, HasSubstr(absl::StrCat("--", flag.name)));
  }
}

}  // namespace flags_test
}  // namespace ddprun
