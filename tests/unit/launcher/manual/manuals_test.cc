// Nothing is missing in the manual pages. tests/integration/manuals_test.sh checks them with mandoc
// and groff.
#include "launcher/manual/manuals.h"

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/config/flags/cli.h"
#include "launcher/config/flags/completion.h"
#include "launcher/config/host.h"
#include "launcher/config/job_keys.h"
#include "launcher/manual/command_exit_codes.h"
#include "launcher/manual/control_messages.h"
#include "launcher/text/parse_control.h"
#include "worker/contract/environment.h"

namespace ddprun::manual {
namespace manuals_test {

using testing::HasSubstr;
using testing::Not;

const Edition kEdition{"2026-01-31", "1.2.3"};

// The text of a page without its escapes, as a reader sees it.
std::string Shown(const std::string& roff) {
  return absl::StrReplaceAll(
      roff,
      {{"\\-", "-"}, {"\\(aq", "'"}, {"\\(dq", "\""}, {"\\fB", ""}, {"\\fI", ""}, {"\\fR", ""}});
}

std::map<std::string, std::string> CommandPages() {
  std::map<std::string, std::string> pages;
  for (const Manual& manual : CommandManuals(kEdition, PosixHost())) {
    pages[manual.file] = Shown(manual.text);
  }
  return pages;
}

std::string HelpOf(const std::vector<const char*>& arguments) {
  const auto command =
      ParseCommandLine(static_cast<int>(arguments.size()), arguments.data(), PosixHost());
  const auto* const help = std::get_if<HelpCommand>(&command);
  return help == nullptr ? "" : help->text;
}

// The long flags in the lines "  -c, --config FILE ..." of --help.
std::set<std::string> FlagsIn(const std::string& help) {
  static const std::regex kLine("\n  (?:-.,|   ) (--[a-z-]+)");
  std::set<std::string> flags;
  for (std::sregex_iterator it(help.begin(), help.end(), kLine), end; it != end; ++it) {
    flags.insert((*it)[1]);
  }
  return flags;
}

void ExpectPage(const std::string& page, const std::string& help) {
  const std::set<std::string> flags = FlagsIn(help);
  for (const std::string& flag : flags) {
    EXPECT_THAT(page, testing::ContainsRegex(absl::StrCat("\n(-., )?", flag, "( |\\[|\n)")));
  }
}

TEST(ManualsTest, EveryFlagOfHelpIsInItsPage) {
  const auto pages = CommandPages();
  const std::string help = HelpOf({"ddprun", "--help"});
  EXPECT_GT(FlagsIn(help).size(), 50U);
  ExpectPage(pages.at("ddprun.1"), help);
  for (const CompletedSubcommand& subcommand : CompletedSubcommands()) {
    const std::string name(subcommand.name);
    EXPECT_THAT(pages.at("ddprun.1"), HasSubstr(absl::StrCat("\n", name, "\n")));
    const std::string of_subcommand = HelpOf({"ddprun", "help", name.c_str()});
    const auto page = pages.find(absl::StrCat("ddprun-", name, ".1"));
    ASSERT_NE(page, pages.end()) << name;
    ExpectPage(page->second, of_subcommand);
    EXPECT_THAT(page->second, HasSubstr(absl::StrCat("SYNOPSIS\"\n.nf\nddprun ", name)));
    EXPECT_THAT(pages.at("ddprun.1"), HasSubstr(absl::StrCat("ddprun-", name, "(1)")));
  }
}

// The text between the heading of a section and the next one; "": no such section.
std::string SectionOf(const std::string& page, const std::string& title) {
  const std::string heading = absl::StrCat("\n.SH \"", title, "\"\n");
  const std::size_t begin = page.find(heading);
  if (begin == std::string::npos) return "";
  const std::size_t end = page.find("\n.SH ", begin + 1);
  return page.substr(begin, end - begin);
}

TEST(ManualsTest, EveryCommandPageHasItsExitStatusAndItsVariables) {
  for (const auto& [file, page] : CommandPages()) {
    const std::string status = SectionOf(page, "EXIT STATUS");
    EXPECT_THAT(status, HasSubstr("\n.TP\n0\n")) << file;
    EXPECT_THAT(status, HasSubstr("\n.TP\n64\n")) << file;
    const bool has_options = !SectionOf(page, "OPTIONS").empty();
    const std::string variables = SectionOf(page, "ENVIRONMENT");
    if (has_options && file != "ddprun-python-module.1" && file != "ddprun-completion.1") {
      EXPECT_THAT(variables, HasSubstr("DDPRUN_")) << file;
    }
  }
}

TEST(ManualsTest, APageHasTheVariablesAndCodesOfItsCommandAlone) {
  const auto pages = CommandPages();
  const std::string of_run = SectionOf(pages.at("ddprun.1"), "ENVIRONMENT");
  EXPECT_THAT(of_run, HasSubstr("DDPRUN_RDZV_ENDPOINT"));
  EXPECT_THAT(of_run, Not(HasSubstr("DDPRUN_HELP")));
  EXPECT_THAT(SectionOf(pages.at("ddprun-kubernetes.1"), "ENVIRONMENT"),
              HasSubstr("DDPRUN_JOBSET"));
  const std::string of_stop = SectionOf(pages.at("ddprun-stop.1"), "EXIT STATUS");
  EXPECT_THAT(of_stop, HasSubstr("the rendezvous says no"));
  EXPECT_THAT(of_stop, Not(HasSubstr("\n65\n")));
  EXPECT_THAT(SectionOf(pages.at("ddprun-validate.1"), "EXIT STATUS"), HasSubstr("\n65\n"));
}

// An exit code of a misspelt command in the table would be in no page.
TEST(ManualsTest, TheTableOfExitCodesNamesSubcommands) {
  std::set<std::string> names;
  for (const CompletedSubcommand& subcommand : CompletedSubcommands()) {
    names.emplace(subcommand.name);
  }
  for (const CommandExitCode& row : kCommandExitCodes) {
    std::istringstream commands(row.commands);
    for (std::string name; commands >> name;) EXPECT_EQ(names.count(name), 1U) << name;
  }
}

TEST(ManualsTest, EveryKeyOfJobFilesIsInItsPage) {
  const std::string page = Shown(JobFileManual(kEdition).text);
  for (const JobKey& key : JobKeys()) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n.TP\n", key.Path(), "\n")));
  }
}

TEST(ManualsTest, EveryVariableOfAWorkerIsInItsPage) {
  const std::string page = Shown(WorkerManual(kEdition).text);
  for (const env::Variable& variable : env::kVariables) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n.TP\n", variable.name, "\n"))) << variable.name;
    EXPECT_GT(std::string(variable.what).size(), 10U) << variable.name;
  }
}

// control.h, which worker and agent share, has each key of a message as a constant in capitals.
TEST(ManualsTest, TheTableOfControlMessagesIsThatOfTheHeader) {
  std::ifstream file(DDPRUN_SOURCE_DIR "/worker/contract/control.h");
  std::stringstream text;
  text << file.rdbuf();
  const std::string header = text.str();
  static const std::regex kConstant("inline constexpr char k\\w+\\[\\] = \"([A-Z_]+)\";");
  std::set<std::string> in_header;
  for (std::sregex_iterator it(header.begin(), header.end(), kConstant), end; it != end; ++it) {
    in_header.insert((*it)[1]);
  }
  std::set<std::string> in_table;
  for (const ControlMessageRow& row : kControlMessages) in_table.insert(row.key);
  EXPECT_GT(in_header.size(), 15U);
  EXPECT_EQ(in_table, in_header);
}

// ParseControl() refuses an empty value for each key that the agent knows, and skips unknown keys.
TEST(ManualsTest, TheAgentKnowsTheMessagesThatWorkersAreSaidToSend) {
  ASSERT_TRUE(ParseControl("NO_SUCH_KEY=").ok());
  std::map<std::string, bool> by_worker;  // some keys are sent both ways
  for (const ControlMessageRow& row : kControlMessages) {
    by_worker[row.key] |= row.sender == Sender::kWorker;
  }
  for (const auto& [key, sent_by_worker] : by_worker) {
    const bool known = !ParseControl(absl::StrCat(key, "=")).ok();
    EXPECT_EQ(known, sent_by_worker) << key;
  }
}

}  // namespace manuals_test
}  // namespace ddprun::manual
