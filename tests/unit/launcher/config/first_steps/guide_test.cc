// The output of `ddprun` without arguments.
#include "launcher/config/first_steps/guide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/config/yaml_config.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace guide_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

FoundJob Found(const std::string& text, const std::string& path = "job.yaml") {
  const JobFile file(text);
  FoundJob job{path};
  const absl::Status status = LoadJobFileInto(file.path(), &job.draft);
  EXPECT_TRUE(status.ok()) << status;
  return job;
}

TEST(GuideTest, OneFileSaysWhatItRunsAndHow) {
  EXPECT_EQ(Guide({Found("command: [./train, --name, a b]\n"
                         "nproc_per_node: 4\n"
                         "restart: {max_restarts: 3}\n"
                         "checkpoint_dir: out/checkpoints\n")}),
            "COMMAND: expected the program that a worker runs (found none). The job file here is "
            "job.yaml, which\n"
            "\n"
            "  runs         ./train --name \"a b\"\n"
            "  on           one node, 4 workers\n"
            "  restarts     at most 3\n"
            "  checkpoints  out/checkpoints\n"
            "  output       logs\n"
            "\n"
            "  # start it here\n"
            "  ddprun -c job.yaml\n"
            "\n"
            "  # print all settings\n"
            "  ddprun validate job.yaml\n");
}

TEST(GuideTest, SeveralNodesMeetWhereTheFileSaysOrBySchedulers) {
  const FoundJob open = Found("{command: a, nodes: 2:4, nproc_per_node: gpu}");
  EXPECT_THAT(
      JobGuide(open.path, open.draft),
      AllOf(
          HasSubstr("  on           2 to 4 nodes, a worker for each GPU on each\n"),
          HasSubstr("\n  ddprun -c job.yaml --rdzv-backend c10d --rdzv-endpoint HOST --token-file "
                    "TOKEN\n"),
          HasSubstr("\n  ddprun slurm job.yaml\n"), HasSubstr("(kubernetes.image)\n"),
          HasSubstr("\n  ddprun kubernetes job.yaml > manifest.yaml && ")));
  const FoundJob met = Found("{command: a, nodes: 2, rendezvous: {endpoint: n1}}");
  EXPECT_THAT(JobGuide(met.path, met.draft),
              AllOf(HasSubstr("  on           2 nodes, 1 worker on each\n"),
                    HasSubstr("\n  # start it, on each node\n  ddprun -c job.yaml\n"),
                    Not(HasSubstr("slurm")), Not(HasSubstr("kubernetes"))));
}

TEST(GuideTest, ASectionOfASchedulerIsHowToStartIt) {
  const FoundJob slurm = Found("{command: a, slurm: {nodes: 4}}");
  EXPECT_THAT(JobGuide(slurm.path, slurm.draft),
              AllOf(HasSubstr("\n  ddprun slurm job.yaml\n"), Not(HasSubstr("kubernetes"))));
  const FoundJob pods = Found("{command: a, kubernetes: {image: b}}");
  EXPECT_THAT(JobGuide(pods.path, pods.draft),
              AllOf(HasSubstr("\n  # start it in Kubernetes\n"), Not(HasSubstr("slurm"))));
}

TEST(GuideTest, NothingOfAFileReachesTheTerminalAsAnOrder) {
  const FoundJob job = Found(R"({command: "\e[2J", checkpoint_dir: "\e]0;a", log_dir: "\ra"})");
  EXPECT_THAT(JobGuide(job.path, job.draft),
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r")), HasSubstr("[2J")));
}

TEST(GuideTest, CommandLinesCanBePasted) {
  const FoundJob job = Found("command: [\"a\"]", "my job.yaml");
  EXPECT_THAT(JobGuide(job.path, job.draft), HasSubstr("\n  ddprun -c \"my job.yaml\"\n"));
}

TEST(GuideTest, AFileWithErrorsIsNamedWithThem) {
  FoundJob job = Found("command: a");
  job.errors = "job.yaml:1:10: nodes: expected";
  EXPECT_EQ(Guide({job}),
            "COMMAND: expected the program that a worker runs (found none). The job file here is "
            "wrong:\njob.yaml:1:10: nodes: expected\n");
}

TEST(GuideTest, WithoutAFileSaysHowToBegin) {
  EXPECT_THAT(Guide({}), AllOf(StartsWith("COMMAND: expected the program that a worker runs"),
                               HasSubstr("\n  ddprun init\n"), HasSubstr("\n  ddprun help\n")));
}

TEST(GuideTest, SeveralFilesAreNamedUpToTen) {
  std::vector<FoundJob> jobs(2, Found("command: a"));
  jobs[1].path = "b.yaml";
  EXPECT_THAT(Guide(jobs), HasSubstr("here:\n\n  ddprun -c job.yaml\n  ddprun -c b.yaml\n"));
  jobs.resize(10, jobs[0]);
  EXPECT_THAT(Guide(jobs), Not(HasSubstr("...")));
  jobs.push_back({"last.yaml"});
  EXPECT_THAT(Guide(jobs), AllOf(HasSubstr("  ...\n"), Not(HasSubstr("last.yaml"))));
}

}  // namespace guide_test
}  // namespace ddprun
