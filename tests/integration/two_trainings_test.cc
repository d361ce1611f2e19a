// Two trainings in one checkpoint folder: which one owns it, and what happens to the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "tests/support/job.h"
#include "worker/contract/checkpoint_owner.h"

namespace ddprun {
namespace two_trainings_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TwoTrainingsTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_ / "second"); }

  // A training of one worker that saves every 20 steps. It ends after `steps` steps; 0: never.
  Program& Start(Job& job, const std::vector<std::string>& flags = {}, int steps = 0) {
    std::vector<std::string> arguments = {
        "--nproc-per-node", "1",  "--max-restarts",   "3",
        "--save-timeout",   "1s", "--checkpoint-dir", checkpoints()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(
        arguments.end(),
        {"--", DDPRUN_BIN_DIR "/mnist_ddp", "--limit-train", "640", "--epochs", "100000",
         "--batch-size", "8", "--checkpoint-every", "20", "--max-steps", std::to_string(steps)});
    return job.AddNode(arguments);
  }

  std::string checkpoints() const { return folder_ / "checkpoints"; }

  std::optional<CheckpointOwner> Owner() const { return ReadOwner(checkpoints()); }
  // "" if no run owns the folder.
  std::string Run() const { return Owner() ? Owner()->run : ""; }

  // Waits until a run other than `before` owns the folder and has saved something there.
  bool WaitForTraining(const std::string& before = "") const {
    return WaitForChange(folder_.path(), [&] { return fs::exists(checkpoints()); }) &&
           WaitForChange(checkpoints(), [&] {
             const auto files = Files();
             return Run() != before &&
                    std::any_of(files.begin(), files.end(),
                                [&](const std::string& file) { return RunOf(file) == Run(); });
           });
  }

  // Any exit code is right: the folder may belong to another training.
  static void End(Program& program) {
    program.Signal(SIGTERM);
    EXPECT_TRUE(program.Wait()) << program.err();
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(checkpoints(), error)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
    return files;
  }

  static std::string RunOf(const std::string& file) {
    const std::string key = "\"ddprun_run\":\"";
    const std::string text = ReadFile(file);
    const std::size_t at = text.find(key);
    return at == text.npos ? "" : text.substr(at + key.size(), 16);
  }

  TempDir folder_;
  Job first_{folder_.path()};
  Job second_{folder_ / "second"};
};

// At the start of both, the folder does not exist. Seen red without the claim at the start and
// without the refresh: both trained.
TEST_F(TwoTrainingsTest, OfTwoThatStartTogetherOneIsRefusedBeforeItSavesAnything) {
  Program& one = Start(first_);
  Program& other = Start(second_);
  ASSERT_TRUE(WaitForTraining()) << one.err() << other.err();
  const CheckpointOwner owner = *Owner();
  const bool first_has_it = first_.Worker(0) == owner.pid;
  Program& refused = first_has_it ? other : one;
  Program& trains = first_has_it ? one : other;
  EXPECT_EQ(refused.ExitCode(), 77) << refused.err();
  EXPECT_THAT(refused.err(),
              AllOf(HasSubstr("the checkpoint folder " + checkpoints() + " belongs to "),
                    HasSubstr("process " + std::to_string(owner.pid) + " on " + owner.host),
                    HasSubstr("--take-folder"), HasSubstr("a restart cannot cure it"),
                    Not(HasSubstr("restart 1 of 3"))));
  EXPECT_EQ(Run(), owner.run);
  for (const std::string& file : Files()) EXPECT_EQ(RunOf(file), owner.run) << file;
  EXPECT_EQ(kill(static_cast<pid_t>(owner.pid), 0), 0) << "the other one trains on";
  End(trains);
}

TEST_F(TwoTrainingsTest, ARestartedGenerationHasItsFolderAtOnce) {
  Program& ddprun = Start(first_);
  ASSERT_TRUE(WaitForTraining()) << ddprun.err();
  const CheckpointOwner before = *Owner();
  ASSERT_EQ(kill(static_cast<pid_t>(before.pid), SIGKILL), 0);
  ASSERT_TRUE(WaitForChange(checkpoints(), [&] { return Owner() && Owner()->generation == 1; }))
      << ddprun.err();
  EXPECT_EQ(Run(), before.run);
  EXPECT_THAT(ddprun.err(), Not(HasSubstr("waiting until it was silent")));
  End(ddprun);
}

TEST_F(TwoTrainingsTest, OneThatWasKilledIsFollowedAtOnce) {
  Program& killed = Start(first_);
  ASSERT_TRUE(WaitForTraining()) << killed.err();
  const std::string before = Run();
  killed.Signal(SIGKILL);
  ASSERT_TRUE(killed.Wait());
  const auto deadline = std::chrono::steady_clock::now() + kHang;
  while (!first_.Survivors().empty() && std::chrono::steady_clock::now() < deadline) continue;
  Program& follows = Start(second_);
  ASSERT_TRUE(WaitForTraining(before)) << follows.err();
  EXPECT_THAT(follows.err(), Not(HasSubstr("waiting until it was silent")));
  // The second training continues from the state of the first one, and may delete its files.
  ASSERT_TRUE(WaitForChange(checkpoints(), [&] {
    const auto files = Files();
    return std::none_of(files.begin(), files.end(),
                        [&](const std::string& file) { return RunOf(file) == before; });
  })) << follows.err();
  End(follows);
}

TEST_F(TwoTrainingsTest, TakeFolderTakesItFromOneThatTrains) {
  Program& loses = Start(first_);
  ASSERT_TRUE(WaitForTraining()) << loses.err();
  const std::string before = Run();
  Program& takes = Start(second_, {"--take-folder"});
  ASSERT_TRUE(WaitForTraining(before)) << takes.err();
  EXPECT_TRUE(
      loses.WaitForErr("is not saved: the checkpoint folder " + checkpoints() + " belongs to "))
      << loses.err();
  EXPECT_NE(Run(), before);
  End(loses);
  End(takes);
}

// On another host, nobody can see that the owner's process is gone. Seen red when the agent did not
// release the folder.
TEST_F(TwoTrainingsTest, OneThatWasEndedLeavesTheFolderToWhoeverComes) {
  std::string before;
  for (const int signo : {SIGINT, SIGTERM}) {
    Program& ended = Start(first_);
    ASSERT_TRUE(WaitForTraining(before)) << ended.err();
    before = Run();
    EXPECT_FALSE(Owner()->released);
    ended.Signal(signo);
    ASSERT_TRUE(ended.Wait()) << ended.err();
    EXPECT_TRUE(Owner()->released) << ended.err();
    EXPECT_EQ(Run(), before);
  }
}

TEST_F(TwoTrainingsTest, OneThatHasEndedWellLeavesTheFolderToWhoeverComes) {
  Program& first = Start(first_, {}, 20);
  ASSERT_EQ(first.ExitCode(), 0) << first.err();
  ASSERT_TRUE(Owner());
  EXPECT_TRUE(Owner()->released);
  Program& second = Start(second_, {}, 40);
  ASSERT_EQ(second.ExitCode(), 0) << second.err();
  EXPECT_THAT(second.err(), Not(HasSubstr("waiting until it was silent")));
}

}  // namespace two_trainings_test
}  // namespace ddprun
