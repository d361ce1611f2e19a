// The batch script of `ddprun slurm`. tests/slurm shows that Slurm and bash understand it.
#include "launcher/config/slurm/slurm_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/config/yaml_config.h"
#include "tests/support/golden.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace slurm_script_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

SlurmJob JobOf(const std::string& name) {
  SlurmJob job;
  const absl::Status status = LoadJobFileInto(
      std::string(DDPRUN_SOURCE_DIR) + "/tests/data/slurm/" + name + ".yaml", &job.draft);
  EXPECT_TRUE(status.ok()) << status;
  job.name = name;
  job.directory = "/home/user/my project";
  job.folder = "/home/user/my project/" + job.draft.config.log_dir + "/slurm-" + name + "-x1";
  job.ddprun = "/opt/ddprun/bin/ddprun";
  return job;
}

class SlurmScriptTest : public testing::TestWithParam<std::string> {};

TEST_P(SlurmScriptTest, IsAsItIsWrittenDown) {
  const SlurmJob job = JobOf(GetParam());
  ExpectGolden("tests/data/slurm/" + GetParam() + ".sbatch", SlurmScript(job));
  ExpectGolden("tests/data/slurm/" + GetParam() + ".dry-run.txt", SlurmDryRun(job));
}

INSTANTIATE_TEST_SUITE_P(Files, SlurmScriptTest, testing::Values("plain", "hostile"),
                         [](const auto& file) { return file.param; });

TEST(SlurmScriptTest, SaveFitsInTheWarning) {
  SlurmJob job = JobOf("plain");
  EXPECT_THAT(SlurmScript(job), HasSubstr("DDPRUN_SAVE_TIMEOUT=105s\n"));
  job.draft.config.slurm.warning = std::chrono::seconds(25);
  EXPECT_THAT(SlurmScript(job), HasSubstr("DDPRUN_SAVE_TIMEOUT=10s\n"));
  job.draft.origins["stop_grace"];
  job.draft.config.stop_grace = std::chrono::seconds(9);
  EXPECT_THAT(SlurmScript(job), HasSubstr("DDPRUN_SAVE_TIMEOUT=8s\n"));
  job.draft.config.stop_grace = std::chrono::minutes(3);  // leaves no time for the save
  EXPECT_THAT(SlurmScript(job), HasSubstr("DDPRUN_SAVE_TIMEOUT=0s\n"));
  job.draft.config.slurm.warning = std::chrono::seconds(0);
  EXPECT_THAT(SlurmScript(job), Not(HasSubstr("DDPRUN_SAVE_TIMEOUT")));
}

TEST(SlurmScriptTest, TimesOfEveryFormThatSlurmTakes) {
  const std::pair<const char*, int> times[] = {{"2", 120},
                                               {"2:30", 150},
                                               {"1:02:03", 3723},
                                               {"1-1", 90'000},
                                               {"1-1:01", 90'060},
                                               {"1-01:01:01", 90'061},
                                               {"0", 0},
                                               {"UNLIMITED", 0},
                                               {"", 0},
                                               {"1:2:3:4", 0},
                                               {"9999999999999999999", 0}};
  for (const auto& [text, expected] : times) {
    EXPECT_EQ(ParseSlurmTime(text).value_or(std::chrono::seconds(0)).count(), expected) << text;
  }
}

TEST(SlurmScriptTest, ElasticJobAsksForARangeAndOutlivesANode) {
  SlurmJob job = JobOf("plain");
  job.draft.config.nodes = {2, 4};
  EXPECT_THAT(SlurmScript(job), HasSubstr("#SBATCH --nodes=2-4\n"));
  EXPECT_THAT(SlurmScript(job), HasSubstr("#SBATCH --no-kill\n"));
}

TEST(SlurmScriptTest, KeysAreCheckedLikeAllOthers) {
  JobDraft draft;
  const JobFile file(
      "command: a\nslurm:\n  spare_nodes: -1\n  time: \"1\\n2\"\n  extra: [--x, y]\n  spare_node: "
      "3\n");
  const std::string error(LoadJobFileInto(file.path(), &draft).message());
  EXPECT_THAT(error, HasSubstr(":3:16: slurm.spare_nodes: expected a whole number"));
  EXPECT_THAT(error, HasSubstr(":4:9: slurm.time: expected one line of text"));
  EXPECT_THAT(error, HasSubstr(":5:16: slurm.extra[1]: expected one word that begins with a dash"));
  EXPECT_THAT(error, HasSubstr(":6:3: slurm.spare_node: expected one of "));
  EXPECT_THAT(error, HasSubstr("did you mean spare_nodes?"));
}

TEST(SlurmScriptTest, CommandLineHasOneFileAndThenWhatIsForSbatch) {
  const auto command =
      ParseAs<SlurmCommand>({"slurm", "job.yaml", "--dry-run", "--", "--exclusive", "-p", "a b"});
  EXPECT_EQ(command.path, "job.yaml");
  EXPECT_TRUE(command.dry_run);
  EXPECT_THAT(command.sbatch_options, ElementsAre("--exclusive", "-p", "a b"));
  EXPECT_THAT(ErrorOf({"slurm"}), HasSubstr("slurm: expected one job file (found 0)"));
}

}  // namespace slurm_script_test
}  // namespace ddprun
