// Real training on real MNIST under ddprun. Workers are killed, and the job ends like an
// undisturbed one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/support/job.h"

namespace ddprun {
namespace train_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::chrono::minutes kTraining{5};
constexpr char kTrainImages[] = "train-images-idx3-ubyte.gz";

// A line of a rank's step log; see worker/examples/common/step_log.h.
struct Step {
  int generation = 0;
  int epoch = 0;
  int step = 0;
  int first_sample = 0;
};

std::vector<Step> ReadSteps(const std::string& path) {
  std::vector<Step> steps;
  for (const std::string& line : ReadLines(path)) {
    std::istringstream fields(line);
    Step step;
    fields >> step.generation >> step.epoch >> step.step >> step.first_sample;
    steps.push_back(step);
  }
  return steps;
}

// The last "test accuracy" that was printed; 0 when none was.
double Accuracy(const std::string& text) {
  static const std::regex pattern("test accuracy (0\\.[0-9]+)");
  double accuracy = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    accuracy = std::stod((*it)[1]);
  }
  return accuracy;
}

// A checkpoint without its run id, which is random, and without the hash over it.
std::string WithoutRun(std::string file) {
  for (const std::string key : {"\"ddprun_run\":\"", "\"header_xxh3\":\""}) {
    const std::size_t at = file.find(key);
    EXPECT_NE(at, file.npos) << key;
    if (at != file.npos) file.replace(at + key.size(), 16, 16, '0');
  }
  return file;
}

class TrainTest : public testing::Test {
 protected:
  // The command of a shipped job file, with this build's trainer, and more arguments.
  static std::vector<std::string> CommandOf(const std::string& config,
                                            std::vector<std::string> more) {
    Program validate({DdprunPath(), "validate", "--json", config}, {}, SourceDir());
    EXPECT_EQ(validate.ExitCode(), 0) << validate.err();
    std::vector<std::string> command = nlohmann::json::parse(validate.out())["command"];
    command[0] = DDPRUN_BIN_DIR "/mnist_ddp";
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  // Adds a node to the job of `config`.
  Program& AddNode(const std::string& config, const std::vector<std::string>& flags,
                   const std::vector<std::string>& command) {
    std::vector<std::string> arguments = {"-c", config, "--checkpoint-dir",
                                          folder_ / "checkpoints"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.push_back("--");
    arguments.insert(arguments.end(), command.begin(), command.end());
    return job_.AddNode(arguments);
  }

  std::string step_log(int rank) const {
    return folder_.path() + "/steps/rank" + std::to_string(rank) + ".log";
  }

  std::string Checkpoint(int step) const {
    const std::string digits = std::to_string(step);
    return folder_.path() + "/checkpoints/step-" + std::string(12 - digits.size(), '0') + digits +
           ".safetensors";
  }

  // Four workers on two nodes; `victim` gets SIGKILL in the second epoch. The survivors may
  // continue in place, with the state of their last step.
  void KillInMidEpochAndFinish(int victim) {
    const std::string config = "configs/mnist_two_nodes.yaml";
    Daemon daemon(folder_.path());
    const std::string steps = folder_ / "steps";
    const auto command = CommandOf(config, {"--step-log", steps});
    const int checkpoint_every =
        std::stoi(*(std::find(command.begin(), command.end(), "--checkpoint-every") + 1));
    const std::vector<std::string> flags = {"--rdzv-endpoint", daemon.endpoint()};
    Program& a = AddNode(config, flags, command);
    Program& b = AddNode(config, flags, command);

    // The moment is between two checkpoints, some steps after the first checkpoint of the second
    // epoch is on disk. A checkpoint is written while training continues.
    ASSERT_TRUE(WaitForChange(
        steps,
        [&] {
          const auto done = ReadSteps(step_log(victim));
          if (done.empty() || done.back().epoch != 1) return false;
          const int since = done.back().step % checkpoint_every;
          return since >= 10 && since <= checkpoint_every - 10 &&
                 std::filesystem::exists(Checkpoint(done.back().step - since));
        },
        kTraining))
        << a.err() << b.err();
    const pid_t pid = job_.Worker(victim);
    ASSERT_GT(pid, 0);
    ASSERT_EQ(kill(pid, SIGKILL), 0);

    EXPECT_EQ(a.ExitCode(kTraining), 0) << a.err();
    EXPECT_EQ(b.ExitCode(kTraining), 0) << b.err();
    EXPECT_GE(Accuracy(a.out() + b.out()), 0.97);
    for (const Program* node : {&a, &b}) {
      EXPECT_THAT(node->err(), HasSubstr("restart 1 of 3"));
      EXPECT_THAT(node->err(), Not(HasSubstr("restart 2 of 3")));
    }
    for (int rank = 0; rank < 4; ++rank)
      ExpectNoStepSkipped(rank, rank == victim, checkpoint_every);
    EXPECT_THAT(job_.Survivors(), IsEmpty());
  }

  // In each generation, the steps follow each other. The second generation goes back at most
  // `checkpoint_every` steps, and repeats the same batches. A victim may not have reported its last
  // step. If the other ranks have finished that step, it is not repeated.
  void ExpectNoStepSkipped(int rank, bool is_victim, int checkpoint_every) {
    const auto steps = ReadSteps(step_log(rank));
    ASSERT_FALSE(steps.empty());
    EXPECT_EQ(steps.front().step, 1);
    std::map<int, int> first_sample_of;
    int repeated = 0;
    int untold = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto [known, is_new] = first_sample_of.emplace(steps[i].step, steps[i].first_sample);
      EXPECT_EQ(known->second, steps[i].first_sample)
          << "rank " << rank << " step " << steps[i].step;
      if (!is_new) ++repeated;
      if (i == 0) continue;
      if (steps[i].generation == steps[i - 1].generation) {
        EXPECT_EQ(steps[i].step, steps[i - 1].step + 1) << "rank " << rank;
      } else {
        EXPECT_EQ(steps[i].generation, 1);
        untold = std::max(0, steps[i].step - steps[i - 1].step - 1);
        EXPECT_LE(untold, is_victim ? 1 : 0) << "rank " << rank << " skipped steps";
      }
    }
    EXPECT_EQ(steps.back().generation, 1);
    EXPECT_LE(repeated, checkpoint_every) << "rank " << rank;
    EXPECT_EQ(first_sample_of.size(), static_cast<std::size_t>(steps.back().step - untold));
  }

  // A copy of the shipped data; a damaged one has lost most of the training images.
  void CopyData(const std::string& name, bool damaged) const {
    std::filesystem::copy(SourceDir() + "/tests/data/mnist", folder_ / name);
    if (!damaged) return;
    std::filesystem::resize_file((folder_ / name) + "/" + kTrainImages, 1000);
  }

  // Two ranks, each with its own data. They ignore SIGTERM and do not continue in place, so each
  // rank has to end by itself.
  Program& RunOnData() {
    return job_.AddNode({"--nproc-per-node", "2", "--in-place-timeout", "0", "--report",
                         folder_ / "report.json", "sh", "-c", "trap '' TERM; exec \"$0\" \"$@\"",
                         DDPRUN_BIN_DIR "/mnist_ddp", "--data", folder_ / "data${local_rank}"});
  }

  // `rank` has found that its data is damaged. The job has ended, and reports this once, for this
  // rank.
  void ExpectTheErrorOf(int rank, Program& node) {
    EXPECT_EQ(node.ExitCode(), 1) << node.err();
    EXPECT_THAT(job_.Survivors(), IsEmpty());
    const std::string number = std::to_string(rank);
    const std::string error =
        "rank " + number + ": data file " + (folder_ / "data") + number + "/" + kTrainImages;
    EXPECT_THAT(WorkersErrorLines(node),
                ElementsAre(AllOf(HasSubstr("[rank " + number + "] error: " + error),
                                  HasSubstr("truncated"))));
    const auto report = nlohmann::json::parse(ReadFile(folder_ / "report.json"));
    EXPECT_EQ(report["root_cause"]["rank"], rank) << report;
    EXPECT_EQ(report["root_cause"]["exit_code"], 1) << report;
    // ddp::run() writes this file just before it ends a process with code 1.
    for (const char* each : {"0", "1"}) {
      EXPECT_THAT(ReadFile(job_.run(0) + "/attempt_0/" + each + "/error.json"), HasSubstr(error));
    }
  }

  // The lines with errors on the terminal, without ddprun's own lines, which quote them.
  static std::vector<std::string> WorkersErrorLines(const Program& node) {
    std::vector<std::string> lines;
    std::istringstream output(node.out() + node.err());
    for (std::string line; std::getline(output, line);) {
      if (line.starts_with("ddprun ")) continue;
      if (line.find("error:") != std::string::npos) lines.push_back(line);
    }
    return lines;
  }

  TempDir folder_;
  Job job_{folder_.path()};
};

TEST_F(TrainTest, OneNodeReachesTheAccuracy) {
  const std::string config = "configs/mnist_local.yaml";
  Program& node = AddNode(config, {}, CommandOf(config, {}));
  EXPECT_EQ(node.ExitCode(kTraining), 0) << node.err();
  EXPECT_GE(Accuracy(node.out()), 0.97) << node.out();
}

TEST_F(TrainTest, KillingRankZeroInMidEpochRepeatsAtMostOneCheckpointsSteps) {
  KillInMidEpochAndFinish(0);
}

TEST_F(TrainTest, KillingAWorkerOfTheOtherNodeRepeatsAtMostOneCheckpointsSteps) {
  KillInMidEpochAndFinish(3);
}

// The test compares the whole last checkpoint, to the last bit.
TEST_F(TrainTest, ADaemonThatIsKilledTwentyTimesChangesNothing) {
  constexpr int kKills = 20;
  constexpr int kStepsBetween = 18;
  const std::string config = "configs/mnist_two_nodes.yaml";
  std::vector<std::string> checkpoints;
  std::vector<std::size_t> steps_made;
  for (const int kills : {0, kKills}) {
    const std::string folder = folder_ / std::to_string(kills);
    std::filesystem::create_directories(folder);
    const std::string steps = folder + "/steps";
    Daemon daemon(folder);
    Job job(folder);
    const auto command = CommandOf(config, {"--step-log", steps, "--seed", "7"});
    for (int node = 0; node < 2; ++node) {
      std::vector<std::string> arguments = {"-c",
                                            config,
                                            "--checkpoint-dir",
                                            folder + "/checkpoints",
                                            "--rdzv-endpoint",
                                            daemon.endpoint(),
                                            "--"};
      arguments.insert(arguments.end(), command.begin(), command.end());
      job.AddNode(arguments);
    }
    for (int kill = 1; kill <= kills; ++kill) {
      const auto due = static_cast<std::size_t>(kill * kStepsBetween);
      ASSERT_TRUE(WaitForChange(
          steps, [&] { return ReadSteps(steps + "/rank0.log").size() >= due; }, kTraining))
          << "before kill " << kill << ": " << job.node(0).err();
      daemon.Kill();
      daemon.Start();
    }
    for (int node = 0; node < 2; ++node) {
      ASSERT_EQ(job.node(node).ExitCode(kTraining), 0) << job.node(node).err();
      EXPECT_THAT(job.node(node).err(), Not(HasSubstr("generation 1"))) << "nothing restarts";
    }
    EXPECT_GE(Accuracy(job.node(0).out() + job.node(1).out()), 0.97);
    steps_made.push_back(ReadSteps(steps + "/rank0.log").size());
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/checkpoints")) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
    ASSERT_FALSE(files.empty());
    checkpoints.push_back(WithoutRun(ReadFile(*std::max_element(files.begin(), files.end()))));
  }
  EXPECT_GT(steps_made[1], static_cast<std::size_t>(kKills * kStepsBetween));
  EXPECT_EQ(steps_made[0], steps_made[1]);
  EXPECT_TRUE(checkpoints[0] == checkpoints[1]) << "the final parameters differ";
}

TEST_F(TrainTest, TwoNodesOfFourWorkersTrain) {
  const std::string config = "configs/mnist_hpc.yaml";
  Daemon daemon(folder_.path());
  const auto command = CommandOf(config, {"--step-log", folder_ / "steps", "--max-steps", "5"});
  Program& a = AddNode(config, {"--rdzv-endpoint", daemon.endpoint()}, command);
  Program& b = AddNode(config, {"--rdzv-endpoint", daemon.endpoint()}, command);
  EXPECT_EQ(a.ExitCode(kTraining), 0) << a.err();
  EXPECT_EQ(b.ExitCode(kTraining), 0) << b.err();
  EXPECT_GT(Accuracy(a.out() + b.out()), 0);
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(ReadSteps(step_log(rank)).size(), 5u) << rank;
}

// The state is in memory only and is lost with the job. There is no checkpoint to wait for.
TEST_F(TrainTest, SigtermWithoutACheckpointFolderDoesNotWaitForACheckpoint) {
  const std::string steps = folder_ / "steps";
  Program& node = job_.AddNode(
      {"--nproc-per-node", "2", "--save-timeout", "30min", DDPRUN_BIN_DIR "/mnist_ddp", "--data",
       SourceDir() + "/tests/data/mnist", "--step-log", steps, "--epochs", "10000"});
  ASSERT_TRUE(WaitForChange(
      steps, [&] { return ReadSteps(step_log(1)).size() >= 3; }, kTraining))
      << node.err();
  node.Signal(SIGTERM);
  EXPECT_EQ(node.ExitCode(), 143) << node.err();
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_F(TrainTest, ATruncatedDataFileEndsTheJobWithOneClearError) {
  CopyData("data0", true);
  CopyData("data1", true);
  ExpectTheErrorOf(0, RunOnData());
}

TEST_F(TrainTest, ATruncatedDataFileOfOneRankEndsAllRanksWithOneErrorThatNamesIt) {
  CopyData("data0", false);
  CopyData("data1", true);
  ExpectTheErrorOf(1, RunOnData());
}

}  // namespace train_test
}  // namespace ddprun
