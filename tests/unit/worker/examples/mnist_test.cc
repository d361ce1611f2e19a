// Tests mnist_ddp, the example program, with a small part of the shipped data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace mnist_test {

namespace fs = std::filesystem;
using test::CountInErr;
using test::RankResult;
using test::RunRanks;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kData[] = DDP_TEST_DATA "/mnist";
constexpr char kTrainImages[] = "train-images-idx3-ubyte.gz";

// Runs mnist_ddp with `flags` on one rank for each element of `data`, which is the rank's --data.
std::vector<RankResult> Mnist(const std::vector<std::string>& data,
                              const std::vector<std::string>& flags) {
  return RunRanks({static_cast<int>(data.size()),
                   [&](int rank) {
                     std::vector<std::string> command = {DDP_TEST_MNIST, "--data",
                                                         data[static_cast<std::size_t>(rank)]};
                     command.insert(command.end(), flags.begin(), flags.end());
                     return command;
                   },
                   {}});
}

std::vector<RankResult> Mnist(int ranks, const std::vector<std::string>& flags) {
  return Mnist(std::vector<std::string>(static_cast<std::size_t>(ranks), kData), flags);
}

void ExpectSuccess(const std::vector<RankResult>& ranks) {
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
}

std::string LastLine(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) last = line;
  return last;
}

// The step log without its first column, the generation.
std::vector<std::string> Steps(const std::string& folder, int rank) {
  std::ifstream file(folder + "/rank" + std::to_string(rank) + ".log");
  std::vector<std::string> steps;
  for (std::string line; std::getline(file, line);)
    steps.push_back(line.substr(line.find(' ') + 1));
  return steps;
}

class MnistTest : public ::testing::Test {
 protected:
  // A copy of the shipped data, which the test damages.
  std::string CopyOfData(const std::string& name) const {
    fs::copy(kData, folder_ / name);
    return folder_ / name;
  }
  ddprun::TempDir folder_;
};

TEST_F(MnistTest, EndsWithTheAccuracy) {
  const auto ranks = Mnist(2, {"--max-steps", "40"});
  ExpectSuccess(ranks);
  EXPECT_THAT(LastLine(ranks[0].out), ContainsRegex("^test accuracy 0\\.[0-9]{4}$"));
  EXPECT_GT(std::stod(LastLine(ranks[0].out).substr(14)), 0.8);
  EXPECT_EQ(ranks[1].out, "");
}

// 320 images per rank are 5 steps per epoch: step 7 is in the middle of the second.
TEST_F(MnistTest, AResumedTrainingEqualsOneThatWasNeverStopped) {
  const std::vector<std::string> common = {"--limit-train", "640", "--epochs", "10"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), common.begin(), common.end());
    return flags;
  };
  ExpectSuccess(Mnist(2, with({"--max-steps", "11", "--step-log", folder_ / "whole"})));

  const std::string checkpoints = folder_ / "checkpoints";
  const std::vector<std::string> parts = {
      "--checkpoint-dir", checkpoints, "--checkpoint-every", "3", "--step-log", folder_ / "parts"};
  std::vector<std::string> first = with(parts);
  first.insert(first.end(), {"--max-steps", "7"});
  ExpectSuccess(Mnist(2, first));
  std::vector<std::string> second = with(parts);
  second.insert(second.end(), {"--max-steps", "11"});
  const auto ranks = Mnist(2, second);
  ExpectSuccess(ranks);
  EXPECT_THAT(ranks[0].out, HasSubstr("resumed from step 7 (" + checkpoints +
                                      "/step-000000000007.safetensors)\n"));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(Steps(folder_ / "whole", rank).size(), 11u);
    EXPECT_EQ(Steps(folder_ / "parts", rank), Steps(folder_ / "whole", rank));
  }
}

// Three steps of 64 images on each of two ranks leave 256 of 640 images. With the new batch size of
// 100, these are two steps. Seen red when the place was counted in batches: the resumed job then
// went back to the last whole batch.
TEST_F(MnistTest, ANewBatchSizeGoesOnWithTheImagesThatAreLeft) {
  const std::vector<std::string> common = {
      "--limit-train",         "640",        "--epochs", "2", "--checkpoint-dir",
      folder_ / "checkpoints", "--max-steps"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), common.begin(), common.end());
    return flags;
  };
  ExpectSuccess(Mnist(2, with({"3"})));
  ExpectSuccess(Mnist(2, with({"6", "--batch-size", "100", "--step-log", folder_ / "log"})));
  std::vector<std::string> epochs;
  for (const std::string& step : Steps(folder_ / "log", 0)) epochs.push_back(step.substr(0, 3));
  EXPECT_EQ(epochs, (std::vector<std::string>{"0 4", "0 5", "1 6"}));
}

// 2,000 images do not divide by 3: an image left out or counted twice would show.
TEST_F(MnistTest, AccuracyDoesNotDependOnTheNumberOfRanks) {
  const std::vector<std::string> flags = {
      "--max-steps", "30", "--checkpoint-dir", folder_ / "checkpoints", "--limit-train", "4000"};
  const auto trained = Mnist(1, flags);
  ExpectSuccess(trained);
  const auto evaluated = Mnist(3, flags);
  ExpectSuccess(evaluated);
  EXPECT_THAT(evaluated[0].out, HasSubstr("resumed from step 30"));
  EXPECT_EQ(LastLine(evaluated[0].out), LastLine(trained[0].out));
}

TEST_F(MnistTest, AMissingFileOnAllRanksIsOneErrorLineAndNoHang) {
  const auto ranks = Mnist({folder_.path(), folder_.path()}, {});
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 1);
  EXPECT_EQ(CountInErr(ranks, "\n"), 1);
  EXPECT_THAT(ranks[0].err, AllOf(HasSubstr("error: rank 0: data file"), HasSubstr("is missing")));
}

TEST_F(MnistTest, ATruncatedFileOnOneRankNamesTheRankAndEndsAll) {
  const std::string damaged = CopyOfData("damaged");
  fs::resize_file(damaged + "/" + kTrainImages, 1'000'000);
  const auto ranks = Mnist({kData, damaged}, {});
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 1);
  EXPECT_EQ(CountInErr(ranks, "\n"), 1);
  EXPECT_THAT(ranks[1].err, AllOf(HasSubstr("rank 1: data file " + damaged + "/" + kTrainImages),
                                  HasSubstr("truncated")));
}

TEST_F(MnistTest, AWrongMagicNumberIsNamed) {
  const std::string damaged = CopyOfData("damaged");
  fs::copy_file(damaged + "/train-labels-idx1-ubyte.gz", damaged + "/" + kTrainImages,
                fs::copy_options::overwrite_existing);
  const auto ranks = Mnist({damaged, damaged}, {});
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 1);
  EXPECT_EQ(CountInErr(ranks, "\n"), 1);
  EXPECT_THAT(ranks[0].err, HasSubstr("wrong magic number 0x00000801, expected 0x00000803"));
}

TEST_F(MnistTest, AUsageErrorNamesTheFlag) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--no-such-flag"},   {"--epochs", "0"},     {"--epochs", "many"},
      {"--batch-size=-1"},  {"--lr", "0"},         {"--checkpoint-every", "1.5"},
      {"--backend", "mpi"}, {"--max-steps", "-1"}, {"--limit-train=x"},
      {"--seed", "x"},      {"--step-log"},        {"unexpected"}};
  for (const auto& flags : wrong) {
    const RankResult rank = Mnist(1, flags)[0];
    EXPECT_EQ(rank.exit_code, 64) << flags[0];
    EXPECT_THAT(rank.err, HasSubstr(flags[0].substr(0, flags[0].find('=')))) << flags[0];
    EXPECT_LT(rank.err.size(), 120u) << rank.err;  // a short text, not a page of digits
    EXPECT_EQ(rank.out, "");
  }
}

}  // namespace mnist_test
}  // namespace ddp
