// The other subcommands: certs, python-module, validate, doctor, help and version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace cli_subcommands_test {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(CliCertsTest, TakesAFolderAndOneHostForEachNode) {
  FakeHost host;
  host.variables["USER"] = "ann";
  const auto command = Parse(
      {"certs", "--host", "a,10.0.0.7", "out", "--days", "7", "--host", "b", "--host=c"}, host);
  const auto& certs = std::get<CertsCommand>(command);
  EXPECT_EQ(certs.folder, host.CurrentDirectory() + "/out");
  EXPECT_EQ(certs.name, "ann");
  EXPECT_EQ(certs.days, 7);
  EXPECT_THAT(certs.nodes,
              testing::ElementsAre(testing::ElementsAre("a", "10.0.0.7"), testing::ElementsAre("b"),
                                   testing::ElementsAre("c")));
  EXPECT_EQ(std::get<CertsCommand>(Parse({"certs", "out", "--name", "bob"}, host)).name, "bob");
}

TEST(CliCertsTest, SaysWhatWasExpected) {
  EXPECT_THAT(ErrorOf({"certs"}), StartsWith("certs: expected one folder (found 0)"));
  EXPECT_THAT(ErrorOf({"certs", "a", "b"}), StartsWith("certs: expected one folder (found 2)"));
  EXPECT_THAT(ErrorOf({"certs", "a", "--days", "0"}),
              StartsWith("--days: expected a whole number"));
}

TEST(CliPythonModuleTest, TakesOneFolder) {
  FakeHost host;
  const auto command = Parse({"python-module", "lib/"}, host);
  EXPECT_EQ(std::get<PythonModuleCommand>(command).folder, host.CurrentDirectory() + "/lib/");
  EXPECT_THAT(ErrorOf({"python-module"}),
              StartsWith("python-module: expected one folder (found 0)"));
  EXPECT_THAT(ErrorOf({"python-module", "a", "b"}), HasSubstr("(found 2)"));
  EXPECT_EQ(ParseAs<HelpCommand>({"help", "python-module"}).text,
            ParseAs<HelpCommand>({"python-module", "-h"}).text);
}

TEST(CliValidateTest, TakesOneFile) {
  const auto command = ParseAs<ValidateCommand>({"validate", "job.yaml", "--json"});
  EXPECT_EQ(command.path, "job.yaml");
  EXPECT_TRUE(command.json);
  EXPECT_THAT(ErrorOf({"validate"}), StartsWith("validate: expected one job file (found 0)"));
  EXPECT_THAT(ErrorOf({"validate", "a", "b"}), HasSubstr("(found 2)"));
}

TEST(CliInitTest, TakesTheJobAsFlagsAndACommandWithFlagsOfItsOwn) {
  const auto command = ParseAs<InitCommand>({"init", "-o", "a.yaml", "--force", "--nnodes", "2:4",
                                             "--nproc-per-node=gpu", "train.py", "--nnodes", "x"});
  EXPECT_EQ(command.path, "a.yaml");
  EXPECT_TRUE(command.replace);
  EXPECT_EQ(command.draft.config.nodes.min, 2);
  EXPECT_EQ(command.draft.nproc_per_node, "gpu");
  EXPECT_THAT(command.draft.config.command, ElementsAre("train.py", "--nnodes", "x"));
  EXPECT_EQ(command.draft.origins.size(), 3U);
}

TEST(CliInitTest, WithoutFlagsEverythingIsOpen) {
  const auto command = ParseAs<InitCommand>({"init"});
  EXPECT_EQ(command.path, "job.yaml");
  EXPECT_FALSE(command.replace);
  EXPECT_THAT(command.draft.origins, IsEmpty());
}

TEST(CliInitTest, SaysWhatWasExpected) {
  EXPECT_THAT(ErrorOf({"init", "--nnodes", "0"}), StartsWith("--nnodes: expected a number of"));
  EXPECT_THAT(ErrorOf({"init", "--", ""}), StartsWith("COMMAND: expected a program"));
  EXPECT_THAT(ErrorOf({"init", "--role", "a"}), HasSubstr("--role"));
}

TEST(CliHelpTest, IsThereForEachSubcommand) {
  EXPECT_THAT(ParseAs<HelpCommand>({"--help"}).text, HasSubstr("--nproc-per-node"));
  EXPECT_EQ(ParseAs<HelpCommand>({"help"}).text, ParseAs<HelpCommand>({"-h"}).text);
  EXPECT_THAT(ParseAs<HelpCommand>({"rendezvous", "--help"}).text, HasSubstr("--port-file"));
  EXPECT_EQ(ParseAs<HelpCommand>({"help", "validate"}).text,
            ParseAs<HelpCommand>({"validate", "-h"}).text);
  EXPECT_EQ(ParseAs<HelpCommand>({"help", "drain"}).text,
            ParseAs<HelpCommand>({"drain", "--help"}).text);
  EXPECT_THAT(ErrorOf({"help", "zebra"}),
              StartsWith("help: expected nothing, rendezvous, validate,"));
}

// The error of `ddprun help` for an unknown word names all subcommands that have a help.
TEST(CliHelpTest, NamesEachSubcommand) {
  const std::string error = ErrorOf({"help", "zebra"});
  const std::string help = ParseAs<HelpCommand>({"help"}).text;
  const std::string names(error.substr(0, error.find(" (found")));
  int count = 0;
  for (const auto word : absl::StrSplit(names, absl::ByAnyChar(" ,:"), absl::SkipEmpty())) {
    if (word == "help" || word == "expected" || word == "nothing" || word == "or") continue;
    EXPECT_THAT(help, ContainsRegex(absl::StrCat("\n  ddprun ([^\n]*\\| )?", word, " "))) << word;
    ++count;
  }
  EXPECT_GT(count, 15);
}

TEST(CliHelpTest, IsGivenEvenIfOtherFlagsAreWrong) {
  EXPECT_THAT(ParseAs<HelpCommand>({"--zebra", "--help"}).text, HasSubstr("ddprun [OPTIONS]"));
}

TEST(CliHelpTest, HelpOfTheCommandIsTheCommands) {
  EXPECT_THAT(RunOf({"./train", "--help"}).config.command, ElementsAre("./train", "--help"));
}

TEST(CliVersionTest, IsAWordOrAFlag) {
  ParseAs<VersionCommand>({"version"});
  ParseAs<VersionCommand>({"--version"});
  EXPECT_THAT(ErrorOf({"version", "x"}), StartsWith("version: expected nothing"));
}

TEST(CliDoctorTest, TakesTheOptionsOfAJobAndNeedsNoCommand) {
  const auto bare = ParseAs<DoctorCommand>({"doctor"});
  EXPECT_THAT(bare.config.command, IsEmpty());
  EXPECT_TRUE(bare.config.standalone());
  EXPECT_FALSE(bare.json);
  const auto job = ParseAs<DoctorCommand>({"doctor", "--json", "--nnodes", "2", "--rdzv-endpoint",
                                           "n1", "--token-file=t", "./train", "--json"});
  EXPECT_TRUE(job.json);
  EXPECT_EQ(job.config.nodes.max, 2);
  EXPECT_EQ(job.config.rendezvous.endpoint, "n1:29400");
  EXPECT_THAT(job.config.rendezvous.credentials.token_file, testing::EndsWith("/t"));
  EXPECT_THAT(job.config.command, ElementsAre("./train", "--json"));
  EXPECT_THAT(ErrorOf({"doctor", "--zebra"}), HasSubstr("--zebra"));
}

TEST(CliDoctorTest, TakesTheEtcdOfSeveralRendezvous) {
  EXPECT_THAT(ParseAs<DoctorCommand>({"doctor"}).etcd.endpoints, IsEmpty());
  const auto etcd = ParseAs<DoctorCommand>({"doctor", "--etcd", "h1:2379,h2", "--etcd-ca=ca.crt",
                                            "--nnodes", "2", "--rdzv-endpoint", "n1"});
  EXPECT_THAT(etcd.etcd.endpoints, ElementsAre("h1:2379", "h2:2379"));
  EXPECT_THAT(etcd.etcd.ca_file, testing::EndsWith("/ca.crt"));
  EXPECT_EQ(etcd.config.nodes.max, 2);
  EXPECT_THAT(ErrorOf({"doctor", "--etcd-ca=ca.crt"}),
              HasSubstr("--etcd-ca: goes with --rdzv-backend etcd only"));
  EXPECT_THAT(ErrorOf({"--etcd", "h1:2379", "true"}), HasSubstr("--etcd"));
}

TEST(CliStacksTest, TakesProcessesEachOnce) {
  const auto command =
      ParseAs<StacksCommand>({"stacks", "--pid", "12", "-p", "7", "--pid=12", "--json"});
  EXPECT_THAT(command.pids, ElementsAre(12, 7));
  EXPECT_TRUE(command.json);
  EXPECT_FALSE(command.full);
  EXPECT_EQ(command.timeout, std::chrono::seconds(10));
  EXPECT_EQ(ParseAs<StacksCommand>({"stacks", "--pid", "1", "--timeout", "500ms"}).timeout,
            std::chrono::milliseconds(500));
}

TEST(CliStacksTest, SaysWhatWasExpected) {
  EXPECT_THAT(ErrorOf({"stacks"}), StartsWith("stacks: expected one job, or --pid PID"));
  EXPECT_THAT(ErrorOf({"stacks", "--pid", "0"}),
              StartsWith("--pid: expected the number of a process (found \"0\")"));
  EXPECT_THAT(ErrorOf({"stacks", "--pid", "1x"}), HasSubstr("\"1x\""));
  EXPECT_THAT(ErrorOf({"stacks", "job", "--pid", "1"}), HasSubstr("nothing but flags"));
  EXPECT_THAT(ErrorOf({"stacks", "--pid", "1", "--timeout", "0"}), HasSubstr("above 0"));
  EXPECT_THAT(ErrorOf({"stacks", "--pid", "1", "--rank", "0"}), HasSubstr("leave one of them out"));
  EXPECT_THAT(ErrorOf({"stacks", "job", "--rank", "-1"}), HasSubstr("0 or more (found \"-1\")"));
}

TEST(CliStacksTest, TakesAJobAndOneRankOfIt) {
  const auto command = ParseAs<OperatorCommand>(
      {"stacks", "exp7", "--rank", "5", "--full", "--rdzv-endpoint", "n1"});
  EXPECT_EQ(command.kind, OperatorCommand::Kind::kStacks);
  EXPECT_EQ(command.job, "exp7");
  EXPECT_EQ(command.rank, 5);
  EXPECT_TRUE(command.full);
  EXPECT_EQ(command.endpoint, "n1:29400");
  EXPECT_FALSE(ParseAs<OperatorCommand>({"stacks", "exp7"}).rank.has_value());
}

TEST(CliLogsTest, TakesAJobAndWhichOfItsFiles) {
  const auto all = ParseAs<OperatorCommand>({"logs", "exp7"});
  EXPECT_EQ(all.kind, OperatorCommand::Kind::kLogs);
  EXPECT_EQ(all.job, "exp7");
  EXPECT_THAT(all.logs.ranks, IsEmpty());
  EXPECT_TRUE(all.logs.out && all.logs.err);
  EXPECT_EQ(all.logs.tail, std::nullopt);
  const auto some =
      ParseAs<OperatorCommand>({"logs", "exp7", "--rank", "0,4-6", "--generation", "3", "--stderr",
                                "--tail", "20", "-f", "--since", "10m", "--grep", "loss|nan"});
  EXPECT_THAT(some.logs.ranks, ElementsAre(0, 4, 5, 6));
  EXPECT_EQ(some.logs.generation, 3);
  EXPECT_FALSE(some.logs.out);
  EXPECT_TRUE(some.logs.err);
  EXPECT_EQ(some.logs.tail, 20);
  EXPECT_TRUE(some.follow);
  EXPECT_EQ(some.since, std::chrono::minutes(10));
  EXPECT_EQ(some.logs.grep, "loss|nan");
  EXPECT_THAT(ParseAs<OperatorCommand>({"logs", "exp7", "--rank", "0-63"}).logs.ranks,
              testing::SizeIs(64));
}

TEST(CliLogsTest, SaysWhatWasExpected) {
  EXPECT_THAT(ErrorOf({"logs"}), StartsWith("logs: expected one job"));
  for (const char* const ranks : {"0-64", "3-1", "x", "1,,2", "-1"}) {
    EXPECT_THAT(ErrorOf({"logs", "job", "--rank", ranks}), HasSubstr("at most 64 ranks")) << ranks;
  }
  EXPECT_THAT(ErrorOf({"logs", "job", "--generation", "-1"}), HasSubstr("a generation, 0 or more"));
  EXPECT_THAT(ErrorOf({"logs", "job", "--tail", "many"}), HasSubstr("a number of lines"));
}

TEST(CliEventsTest, ATraceIsOfWhatHasHappened) {
  EXPECT_TRUE(ParseAs<OperatorCommand>({"events", "--trace"}).trace);
  EXPECT_THAT(ErrorOf({"events", "--trace", "--follow"}),
              HasSubstr("cannot be given with --follow"));
}

TEST(CliPageTest, TakesAJobOrNone) {
  const auto command = ParseAs<OperatorCommand>({"page", "exp7", "--rdzv-endpoint", "n1"});
  EXPECT_EQ(command.kind, OperatorCommand::Kind::kPage);
  EXPECT_EQ(command.job, "exp7");
  EXPECT_EQ(command.endpoint, "n1:29400");
  EXPECT_EQ(ParseAs<OperatorCommand>({"page"}).job, "");
  EXPECT_THAT(ErrorOf({"page", "a", "b"}), StartsWith("page: expected one job or none"));
}

}  // namespace cli_subcommands_test
}  // namespace ddprun
