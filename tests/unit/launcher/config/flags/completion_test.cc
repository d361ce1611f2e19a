// The text of the completion scripts. tests/integration/completion_test.sh runs them in the shells.
#include "launcher/config/flags/completion.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace completion_test {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using Shell = CompletionCommand::Shell;

Command Parse(const std::vector<const char*>& arguments) {
  std::vector<const char*> argv = {"ddprun"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return ParseCommandLine(static_cast<int>(argv.size()), argv.data(), FakeHost());
}

TEST(CompletionTest, EverySubcommandThatHelpNamesIsCompletedWithItsFlags) {
  const std::string general = std::get<HelpCommand>(Parse({"help"})).text;
  for (const CompletedSubcommand& subcommand : CompletedSubcommands()) {
    EXPECT_THAT(general, HasSubstr(std::string(subcommand.name)));
    if (subcommand.flags.empty()) continue;
    const std::string name(subcommand.name);
    EXPECT_THAT(std::get<HelpCommand>(Parse({"help", name.c_str()})).text,
                HasSubstr(DescribeFlags(subcommand.flags)))
        << name;
  }
  // The other way round: every subcommand is completed.
  for (const char* const name :
       {"rendezvous", "validate", "init", "status", "stop", "drain", "events", "certs",
        "python-module", "logs", "stacks", "page", "completion", "version", "help"}) {
    EXPECT_TRUE(std::any_of(CompletedSubcommands().begin(), CompletedSubcommands().end(),
                            [&](const auto& subcommand) { return subcommand.name == name; }))
        << name;
  }
}

TEST(CompletionTest, OffersEveryFlagExceptTheRefused) {
  for (const Shell shell : {Shell::kBash, Shell::kZsh}) {
    const std::string script = CompletionScript(shell);
    for (const FlagSpec& flag : RunFlags()) {
      const std::string name = absl::StrCat("--", flag.name);
      if (flag.effect == FlagEffect::kRefused) {
        EXPECT_THAT(script, Not(HasSubstr(name)));
      } else {
        EXPECT_THAT(script, HasSubstr(name));
      }
    }
    EXPECT_THAT(script, Not(ContainsRegex("@[A-Z]+@")));  // every placeholder is filled in
  }
}

TEST(CompletionTest, TakesTheNameOfAShellAndNothingElse) {
  EXPECT_EQ(std::get<CompletionCommand>(Parse({"completion", "bash"})).shell, Shell::kBash);
  EXPECT_EQ(std::get<CompletionCommand>(Parse({"completion", "zsh"})).shell, Shell::kZsh);
  EXPECT_EQ(std::get<HelpCommand>(Parse({"completion", "--help"})).text,
            std::get<HelpCommand>(Parse({"help", "completion"})).text);
  const auto error = [](const std::vector<const char*>& arguments) {
    const auto found = std::get<CommandLineError>(Parse(arguments));
    EXPECT_EQ(found.exit_code, kExitUsage);
    return found.message;
  };
  EXPECT_EQ(error({"completion"}), "completion: expected bash or zsh (found nothing)");
  EXPECT_EQ(error({"completion", "fish"}), "completion: expected bash or zsh (found \"fish\")");
  EXPECT_THAT(error({"completion", "bash", "zsh"}), HasSubstr("bash zsh"));
}

}  // namespace completion_test
}  // namespace ddprun
