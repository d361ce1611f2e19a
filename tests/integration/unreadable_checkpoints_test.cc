// Real trainers on folders of checkpoints that cannot be read or written. The faults of the disk
// are real: files of another user, a file system that is full or frozen, lost blocks. Only the file
// server that does not answer is a preloaded library (tests/programs/read_faults.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/capabilities.h"
#include "tests/support/job.h"
#include "tests/support/loop_disk.h"

namespace ddprun {
namespace unreadable_checkpoints_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kStep2[] = "step-000000000002.safetensors";
constexpr char kStep4[] = "step-000000000004.safetensors";

constexpr std::chrono::minutes kTraining{3};
constexpr std::chrono::seconds kFrozen{5};

std::vector<std::string> AsNobody() {
  return {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"};
}

std::string MissingForAnotherUser() {
  if (geteuid() != 0) return "root, to be two users";
  std::vector<std::string> argv = AsNobody();
  argv.insert(argv.end(), {"test", "-x", DdprunPath()});
  return Program(argv).ExitCode() == 0 ? "" : "a build folder that every user may enter";
}

class UnreadableCheckpointsTest : public testing::Test {
 protected:
  // `prefix`: the words before ddprun on the command line.
  Program& Train(int steps, std::vector<std::string> flags = {},
                 std::vector<std::string> prefix = {},
                 std::map<std::string, std::string> environment = {}) {
    std::vector<std::string> argv = std::move(prefix);
    argv.insert(argv.end(), {DdprunPath(), "--log-dir", folder_ / "logs", "--nproc-per-node", "2",
                             "--max-restarts", "3", "--checkpoint-dir", checkpoints_, "--report",
                             folder_ / "report.json"});
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.insert(argv.end(), {"--", DDPRUN_BIN_DIR "/mnist_ddp", "--data", "tests/data/mnist",
                             "--checkpoint-every", "2", "--max-steps", std::to_string(steps)});
    program_ = std::make_unique<Program>(argv, environment, SourceDir());
    return *program_;
  }
  std::vector<std::string> Files() const { return Files(checkpoints_); }
  // Without the owner file and without files of the file system itself.
  static std::vector<std::string> Files(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      if (name != "owner" && name != "lost+found" && name != "filler") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  json Report() const { return json::parse(ReadFile(folder_ / "report.json")); }
  void ExpectStateUnreadable() {
    EXPECT_EQ(program_->ExitCode(kTraining), 66) << program_->err();
    EXPECT_EQ(Report()["outcome"], "state_unreadable");
    EXPECT_EQ(Report()["restarts"], 0);
  }

  TempDir folder_;
  const std::string checkpoints_ = folder_ / "checkpoints";
  std::unique_ptr<Program> program_;
};

// The folder is shared by two users, and one of them has started the training from step 0 by
// mistake. Seen red when unreadable files were skipped.
TEST_F(UnreadableCheckpointsTest, OfAnotherUserEndTheJobAndStayAsTheyAre) {
  DDPRUN_NEEDS(MissingForAnotherUser());
  ASSERT_EQ(Train(4).ExitCode(kTraining), 0) << program_->err();
  ASSERT_THAT(Files(), ElementsAre(kStep2, kStep4));
  for (const char* name : {kStep2, kStep4}) chmod((checkpoints_ + "/" + name).c_str(), 0600);
  const std::string before = ReadFile(checkpoints_ + "/" + kStep4);
  for (const std::string& path : {folder_.path(), checkpoints_, folder_ / "logs"}) {
    chmod(path.c_str(), 0777);
  }
  chmod((checkpoints_ + "/owner").c_str(), 0666);
  fs::remove(folder_ / "report.json");
  Train(8, {}, AsNobody());
  ExpectStateUnreadable();
  EXPECT_THAT(program_->err(), HasSubstr("(errno 13, user id 65534)"));
  EXPECT_THAT(program_->err(), HasSubstr("start with --start-anew, to begin at step 0"));
  EXPECT_THAT(program_->out(), Not(HasSubstr("step 1")));
  EXPECT_THAT(Files(), ElementsAre(kStep2, kStep4));
  EXPECT_EQ(ReadFile(checkpoints_ + "/" + kStep4), before);
}

TEST_F(UnreadableCheckpointsTest, WithStartAnewTrainingBeginsAtStep0AndDeletesNothing) {
  ASSERT_EQ(Train(4).ExitCode(kTraining), 0) << program_->err();
  fs::rename(checkpoints_ + "/" + kStep2, checkpoints_ + "/step-000000000003.safetensors");
  const std::string before = ReadFile(checkpoints_ + "/" + kStep4);
  ASSERT_EQ(Train(8, {"--start-anew"}).ExitCode(kTraining), 0) << program_->err();
  EXPECT_THAT(program_->out(), Not(HasSubstr("resumed from step")));
  EXPECT_THAT(Files(),
              ElementsAre("step-000000000003.safetensors", kStep4, "step-000000000006.safetensors",
                          "step-000000000008.safetensors"));
  EXPECT_EQ(ReadFile(checkpoints_ + "/" + kStep4), before);
  EXPECT_EQ(Report()["restore"]["tier"], "none");
}

// A real disk, which becomes read-only: training continues without saving. A process that maps a
// file with lost blocks ends with SIGBUS.
TEST_F(UnreadableCheckpointsTest, LostBlocksLeadToTheOlderFileAndNothingIsRenamed) {
  DDPRUN_NEEDS(MissingForMounts());
  ASSERT_EQ(Train(4).ExitCode(kTraining), 0) << program_->err();
  LoopDisk disk(folder_.path());
  ASSERT_EQ(disk.why_not(), "");
  for (const char* name : {kStep2, kStep4}) {  // in this order on the disk
    fs::copy(checkpoints_ + "/" + name, disk.path() + "/" + name);
  }
  disk.LoseBlocks(disk.path() + "/" + kStep4);
  Train(6, {"--checkpoint-dir", disk.path()});
  EXPECT_EQ(program_->ExitCode(kTraining), 0) << program_->err();
  EXPECT_THAT(program_->out(), HasSubstr("resumed from step 2 "));
  EXPECT_THAT(program_->err(), HasSubstr(std::string(kStep4) + " is damaged: cannot read its "));
  EXPECT_THAT(program_->err(), HasSubstr("Read-only file system"));
  EXPECT_EQ(Report()["restarts"], 0);
  EXPECT_TRUE(fs::exists(disk.path() + "/" + kStep4));
}

TEST_F(UnreadableCheckpointsTest, AFullDiskCostsCheckpointsAndNeitherTrainingNorOlderFiles) {
  DDPRUN_NEEDS(MissingForMounts());
  LoopDisk disk(folder_.path());
  ASSERT_EQ(disk.why_not(), "");
  const std::vector<std::string> on_disk = {"--checkpoint-dir", disk.path()};
  ASSERT_EQ(Train(4, on_disk).ExitCode(kTraining), 0) << program_->err();
  disk.Fill();
  ASSERT_EQ(Train(6, on_disk).ExitCode(kTraining), 0) << program_->err();
  EXPECT_THAT(program_->out(), HasSubstr("resumed from step 4 "));
  EXPECT_THAT(program_->err(), HasSubstr("checkpoint of step 6 is not saved: "));
  EXPECT_THAT(program_->err(), HasSubstr("No space left on device"));
  EXPECT_EQ(Report()["restarts"], 0);
  EXPECT_THAT(Files(disk.path()), ElementsAre(kStep2, kStep4)) << "no temporary file is left";
  disk.MakeRoom();
  ASSERT_EQ(Train(8, on_disk).ExitCode(kTraining), 0) << program_->err();
  EXPECT_THAT(program_->out(), HasSubstr("resumed from step 4 "));
  EXPECT_THAT(Files(disk.path()),
              ElementsAre("step-000000000006.safetensors", "step-000000000008.safetensors"));
}

// A process that writes to the frozen disk waits in the kernel: at the start for the claim of the
// folder, then for a file.
TEST_F(UnreadableCheckpointsTest, AFrozenDiskIsWaitedForAndNothingIsLost) {
  DDPRUN_NEEDS(MissingForMounts());
  LoopDisk disk(folder_.path());
  ASSERT_EQ(disk.why_not(), "");
  const std::vector<std::string> on_disk = {"--checkpoint-dir", disk.path()};
  ASSERT_EQ(Train(4, on_disk).ExitCode(kTraining), 0) << program_->err();
  disk.Freeze();
  Train(60, on_disk);
  std::this_thread::sleep_for(kFrozen);  // how long it is frozen is what is tested
  EXPECT_THAT(program_->out(), Not(HasSubstr("step"))) << "it did not begin beside the files";
  disk.Thaw();
  ASSERT_TRUE(program_->WaitForOut("resumed from step 4 ", kTraining)) << program_->err();
  disk.Freeze();
  std::this_thread::sleep_for(kFrozen);
  disk.Thaw();
  EXPECT_EQ(program_->ExitCode(kTraining), 0) << program_->err();
  EXPECT_THAT(program_->err(), Not(HasSubstr("is not saved")));
  EXPECT_EQ(Report()["restarts"], 0);
  EXPECT_THAT(Files(disk.path()),
              ElementsAre("step-000000000058.safetensors", "step-000000000060.safetensors"));
}

// Reads fail with ETIMEDOUT for ever, as on a file server that does not answer.
TEST_F(UnreadableCheckpointsTest, AnUnavailableFileIsTriedForTheStateTimeoutAndThenTheJobEnds) {
  ASSERT_EQ(Train(4).ExitCode(kTraining), 0) << program_->err();
  Train(6, {"--state-timeout", "500ms"}, {},
        {{"LD_PRELOAD", READ_FAULTS_LIBRARY},
         {"READ_FAULTS", checkpoints_ + "/" + kStep4 + " 110 0"}});
  ExpectStateUnreadable();
  EXPECT_THAT(program_->err(), HasSubstr("training waits for it, at most 0.5 s (--state-timeout)"));
  EXPECT_THAT(program_->err(), HasSubstr("(errno 110, user id "));
  EXPECT_THAT(Files(), ElementsAre(kStep2, kStep4));
}

}  // namespace unreadable_checkpoints_test
}  // namespace ddprun
