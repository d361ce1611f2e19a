// A transformer under ddprun. The shipped job reaches the results that docs/gpt.md promises, and
// kills of its workers do not change what the model learns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/job.h"

namespace ddprun {
namespace gpt_kills_test {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kSteps = 120;
constexpr std::chrono::seconds kTraining{60};

struct Kill {
  int rank = 0;
  int step = 0;  // the rank is killed after it has finished this step
};

// A line of a rank's step log; see worker/examples/common/step_log.h.
struct Step {
  int generation = 0;
  int step = 0;
  std::string rest;  // epoch, step, first sample and loss with all its digits
};

std::vector<Step> ReadSteps(const std::string& path) {
  std::vector<Step> steps;
  for (const std::string& line : ReadLines(path)) {
    Step step;
    int epoch = 0;
    std::istringstream(line) >> step.generation >> epoch >> step.step;
    step.rest = line.substr(line.find(' ') + 1);
    steps.push_back(step);
  }
  return steps;
}

// The tensors of a safetensors file: everything after the header. The header has the job's name.
std::string Tensors(const std::string& path) {
  const std::string file = ReadFile(path);
  std::uint64_t header = 0;
  if (file.size() < sizeof(header)) return "";
  std::memcpy(&header, file.data(), sizeof(header));
  return file.substr(sizeof(header) + header);
}

class GptKillsTest : public testing::Test {
 protected:
  struct Result {
    std::vector<std::vector<Step>> steps;  // by rank
    std::string words;                     // of rank 0, from the validation loss on
    std::string tensors;                   // of the last checkpoint
    std::string err;
  };

  // Two ranks on one node. Each kill is in a generation of its own.
  Result Train(const std::string& name, const std::vector<Kill>& kills) {
    const std::string folder = folder_ / name;
    std::filesystem::create_directories(folder + "/steps");
    Job job(folder);
    Program& node = job.AddNode({"--nproc-per-node",
                                 "2",
                                 "--max-restarts",
                                 "5",
                                 "--checkpoint-dir",
                                 folder + "/checkpoints",
                                 "--",
                                 DDPRUN_BIN_DIR "/gpt_ddp",
                                 "--depth",
                                 "2",
                                 "--width",
                                 "32",
                                 "--context",
                                 "16",
                                 "--batch-size",
                                 "4",
                                 "--accumulate",
                                 "3",
                                 "--limit-text",
                                 "50000",
                                 "--max-steps",
                                 std::to_string(kSteps),
                                 "--checkpoint-every",
                                 "20",
                                 "--snapshot-every",
                                 "7",
                                 "--step-log",
                                 folder + "/steps"});
    const auto log = [&](int rank) {
      return ReadSteps(folder + "/steps/rank" + std::to_string(rank) + ".log");
    };
    int generation = 0;
    for (const Kill& planned : kills) {
      pid_t victim = 0;
      EXPECT_TRUE(WaitForChange(
          folder + "/steps",
          [&] {
            const std::vector<Step> steps = log(planned.rank);
            if (steps.empty() || steps.back().generation != generation) return false;
            if (victim == 0) victim = job.Worker(planned.rank);
            return steps.back().step >= planned.step;
          },
          kTraining))
          << node.err();
      EXPECT_GT(victim, 0);
      if (victim <= 0 || kill(victim, SIGKILL) != 0) break;
      ++generation;
    }
    Result result;
    EXPECT_EQ(node.ExitCode(kTraining), 0) << node.err();
    EXPECT_THAT(job.Survivors(), IsEmpty());
    for (int rank = 0; rank < 2; ++rank) result.steps.push_back(log(rank));
    const std::string out = node.out();
    result.words = out.substr(std::min(out.find("[default0]:validation loss"), out.size()));
    result.tensors = Tensors(folder + "/checkpoints/step-000000000120.safetensors");
    result.err = node.err();
    return result;
  }

  TempDir folder_;
};

// Gradient accumulation, dropout, AdamW's moments, the schedule and the position of the sampler
// must all be restored. Seen red when the schedule counted the steps of its own generation.
TEST_F(GptKillsTest, TwoKillsChangeNoBitOfAnyLossOrOfTheModel) {
  const Result expected = Train("undisturbed", {});
  const Result killed = Train("killed", {{1, 25}, {0, 60}});
  EXPECT_THAT(killed.err, HasSubstr("restart 2 of 5"));
  EXPECT_THAT(expected.words, HasSubstr("sample:"));
  EXPECT_EQ(killed.words, expected.words);
  EXPECT_FALSE(expected.tensors.empty());
  EXPECT_TRUE(killed.tensors == expected.tensors) << "the final checkpoints differ";
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(expected.steps[rank].size(), static_cast<std::size_t>(kSteps));
    const std::vector<Step>& steps = killed.steps[rank];
    ASSERT_FALSE(steps.empty());
    EXPECT_EQ(steps.back().step, kSteps);
    EXPECT_EQ(steps.back().generation, 2);
    // Steps that were rolled back are repeated with the same loss.
    for (const Step& step : steps) {
      EXPECT_EQ(step.rest, expected.steps[rank][static_cast<std::size_t>(step.step) - 1].rest)
          << "rank " << rank << ", generation " << step.generation;
    }
  }
}

// docs/gpt.md has this loss, too. The mean of both ranks' steps 91 to 100 is 2.26; with a tenth of
// the learning rate it is 2.49. The test does not run all 500 steps of the job, which take minutes.
TEST(GptJobTest, TheShippedJobHasTheLossOfTheDocsAfterAHundredSteps) {
  const std::string config = "configs/gpt_local.yaml";
  const TempDir folder;
  Program validate({DdprunPath(), "validate", "--json", config}, {}, SourceDir());
  ASSERT_EQ(validate.ExitCode(), 0) << validate.err();
  std::vector<std::string> command = nlohmann::json::parse(validate.out())["command"];
  command[0] = DDPRUN_BIN_DIR "/gpt_ddp";
  command.insert(command.end(), {"--step-log", folder / "steps"});
  std::vector<std::string> arguments = {"-c", config, "--checkpoint-dir", folder / "checkpoints",
                                        "--"};
  arguments.insert(arguments.end(), command.begin(), command.end());
  std::filesystem::create_directories(folder / "steps");
  Job job(folder.path());
  Program& node = job.AddNode(arguments);
  std::vector<std::vector<Step>> ranks(2);
  ASSERT_TRUE(WaitForChange(
      folder / "steps",
      [&] {
        for (std::size_t rank = 0; rank < 2; ++rank) {
          ranks[rank] = ReadSteps(folder / ("steps/rank" + std::to_string(rank) + ".log"));
        }
        return ranks[0].size() >= 100 && ranks[1].size() >= 100;
      },
      std::chrono::minutes(5)))
      << node.err();
  double sum = 0;
  for (const std::vector<Step>& steps : ranks) {
    for (std::size_t i = 90; i < 100; ++i) {
      sum += std::stod(steps[i].rest.substr(steps[i].rest.rfind(' ')));
    }
  }
  EXPECT_NEAR(sum / 20, 2.26, 0.06);
  node.Signal(SIGTERM);  // the job saves its state and can be run again
  EXPECT_EQ(node.ExitCode(kTraining), 75) << node.err();
  EXPECT_THAT(job.Survivors(), IsEmpty());
}

}  // namespace gpt_kills_test
}  // namespace ddprun
