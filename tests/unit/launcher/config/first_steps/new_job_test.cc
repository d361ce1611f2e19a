// The job file of `ddprun init`.
#include "launcher/config/first_steps/new_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "launcher/config/yaml_config.h"
#include "tests/support/golden.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace new_job_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

FakeHost GpuHost() {
  FakeHost host;
  host.gpu_devices = 8;
  return host;
}

// The dialog after `ddprun init ARGUMENTS`.
NewJobDialog DialogOf(std::vector<std::string> arguments, const FakeHost& host = {}) {
  arguments.insert(arguments.begin(), "init");
  return NewJobDialog(ParseAs<InitCommand>(arguments, host).draft, host);
}

// The questions of the dialog. Each gets a valid answer.
std::vector<std::string> QuestionsOf(NewJobDialog dialog) {
  std::vector<std::string> questions;
  while (const auto question = dialog.Question()) {
    questions.push_back(*question);
    EXPECT_EQ(dialog.Answer(questions.size() == 1 ? "train.py" : ""), "");
    if (questions.size() > 3) break;
  }
  return questions;
}

JobDraft Answered(NewJobDialog dialog, const std::vector<std::string>& answers) {
  for (const std::string& answer : answers) EXPECT_EQ(dialog.Answer(answer), "") << answer;
  EXPECT_EQ(dialog.Question(), std::nullopt);
  return dialog.draft();
}

JobDraft Loaded(const std::string& text) {
  const JobFile file(text);
  JobDraft draft;
  const absl::Status status = LoadJobFileInto(file.path(), &draft);
  EXPECT_TRUE(status.ok()) << status << "\n" << text;
  return draft;
}

TEST(NewJobDialogTest, AsksThreeQuestions) {
  EXPECT_THAT(
      QuestionsOf(DialogOf({})),
      ElementsAre("What does a worker run, such as  train.py --epochs 10? ", "How many nodes [1]? ",
                  "How many workers on each node; gpu: one for each GPU [1]? "));
  EXPECT_THAT(QuestionsOf(DialogOf({}, GpuHost())).back(), HasSubstr("[gpu]? "));
}

TEST(NewJobDialogTest, AsksNotForWhatAFlagHasSaid) {
  EXPECT_THAT(QuestionsOf(DialogOf({"--nnodes=2"})),
              ElementsAre(StartsWith("What does a worker run"), StartsWith("How many workers")));
  EXPECT_THAT(QuestionsOf(DialogOf({"--nnodes=2", "--nproc-per-node=4"})),
              ElementsAre(StartsWith("What does a worker run")));
}

TEST(NewJobDialogTest, WithACommandAsksNothing) {
  EXPECT_THAT(QuestionsOf(DialogOf({"train.py"})), IsEmpty());
  const JobDraft draft = DialogOf({"train.py"}, GpuHost()).draft();
  EXPECT_EQ(draft.nproc_per_node, "gpu");
}

TEST(NewJobDialogTest, TakesWhatAJobFileWouldTake) {
  const JobDraft draft = Answered(DialogOf({}), {"  train.py --name 'a b' ", "2:4", "8"});
  EXPECT_THAT(draft.config.command, ElementsAre("train.py", "--name", "a b"));
  EXPECT_EQ(draft.config.nodes.min, 2);
  EXPECT_EQ(draft.config.nodes.max, 4);
  EXPECT_EQ(draft.nproc_per_node, "8");
}

TEST(NewJobDialogTest, AsksAgainAfterAnAnswerThatDoesNotFit) {
  NewJobDialog dialog = DialogOf({});
  for (const char* const wrong : {"", "  ", "train.py 'a"}) {
    EXPECT_THAT(dialog.Answer(wrong), StartsWith("expected a program")) << wrong;
    EXPECT_THAT(*dialog.Question(), StartsWith("What does a worker run"));
  }
  EXPECT_EQ(dialog.Answer("a"), "");
  EXPECT_THAT(dialog.Answer("many"), StartsWith("expected a number of nodes"));
  EXPECT_THAT(*dialog.Question(), StartsWith("How many nodes"));
}

// Where the user has given no answer, Slurm or Kubernetes may set the value.
TEST(NewJobDialogTest, ADefaultIsLeftOpenAndAnAnswerIsNot) {
  EXPECT_THAT(Answered(DialogOf({}), {"a", "", ""}).origins, testing::SizeIs(1));
  EXPECT_THAT(Answered(DialogOf({}), {"a", "1", "1"}).origins, testing::SizeIs(3));
  EXPECT_THAT(Answered(DialogOf({}, GpuHost()), {"a", "", ""}).origins, testing::SizeIs(2));
}

TEST(NewJobFileTest, IsAsItIsWrittenDown) {
  ExpectGolden("tests/data/first_steps/least.yaml", NewJobFile(DialogOf({"train.py"}).draft()));
  ExpectGolden("tests/data/first_steps/nodes.yaml",
               NewJobFile(DialogOf({"--nnodes=2:4", "--nproc-per-node=8", "./train", "--epochs",
                                    "10", "--name", "a b"})
                              .draft()));
  ExpectGolden("tests/data/first_steps/all.yaml",
               NewJobFile(DialogOf({"--nnodes=2", "--nproc-per-node=gpu", "--rdzv-endpoint=n1",
                                    "--max-restarts=0", "--checkpoint-dir=/data/my run", "./train"})
                              .draft()));
}

TEST(NewJobFileTest, LoadsToTheSameJob) {
  const JobDraft draft = Loaded(
      NewJobFile(DialogOf({"--nnodes=2:4", "--nproc-per-node=auto", "--rdzv-endpoint=[::1]:7",
                           "--max-restarts=5", "--checkpoint-dir=yes", "./train"})
                     .draft()));
  EXPECT_EQ(draft.config.nodes.min, 2);
  EXPECT_EQ(draft.config.nodes.max, 4);
  EXPECT_EQ(draft.nproc_per_node, "auto");
  EXPECT_EQ(draft.config.rendezvous.endpoint, "[::1]:7");
  EXPECT_EQ(draft.config.spec.max_restarts, 5);
  EXPECT_EQ(draft.config.checkpoint_dir, "yes");
}

TEST(NewJobFileTest, KeepsEveryArgument) {
  const std::vector<std::string> hostile = {"./a",
                                            "",
                                            "-",
                                            "10",
                                            "1e3",
                                            "yes",
                                            "~",
                                            "null",
                                            "a: b",
                                            "#x",
                                            "x #y",
                                            "\"q\"",
                                            "'q'",
                                            "[a, b]",
                                            "{a: b}",
                                            "a\\n",
                                            "a\nb\t",
                                            "\x01\x7f",
                                            "\xc3\xa4\xe2\x82\xac",
                                            "\xff",
                                            "!!x",
                                            "&a",
                                            "*a",
                                            "%a",
                                            "@a",
                                            "`a`",
                                            "a,b",
                                            ": ",
                                            "?",
                                            "|",
                                            ">"};
  std::vector<std::string> arguments = {"--"};
  arguments.insert(arguments.end(), hostile.begin(), hostile.end());
  const std::string text = NewJobFile(DialogOf(arguments).draft());
  EXPECT_EQ(Loaded(text).config.command, hostile) << text;
}

}  // namespace new_job_test
}  // namespace ddprun
