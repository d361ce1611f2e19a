// Log files on a disk that is full, and later has room again. No output is lost, unless the user
// allows ddprun to drop it; then the loss is reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/support/capabilities.h"
#include "tests/support/job.h"
#include "tests/support/loop_disk.h"

namespace ddprun {
namespace full_disk_test {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class FullDiskTest : public testing::Test {
 protected:
  static constexpr std::size_t kFlood = 16 << 20;

  void SetUp() override {
    DDPRUN_NEEDS(MissingForMounts());
    disk_.emplace(folder_.path());
    ASSERT_EQ(disk_->why_not(), "");
    job_.emplace(disk_->path());
  }

  // The worker writes a line. When the flag `flood` exists, it writes much output, and then raises
  // `flooded`. When `end` exists, it writes a last line and ends.
  void Start(const std::string& when_full) {
    std::ofstream(folder_ / "job.yaml") << "logs: {redirects: 3, when_full: " << when_full << "}\n";
    const auto until = [this](const std::string& name) {
      return "until [ -e " + (folder_ / name) + " ]; do sleep 0.05; done; ";
    };
    job_->AddNode({"-c", folder_ / "job.yaml", "--nproc-per-node", "1", "sh", "-c",
                   "echo first; touch " + (folder_ / "up") + "; " + until("flood") + "head -c " +
                       std::to_string(kFlood) + " /dev/zero | tr '\\0' x; touch " +
                       (folder_ / "flooded") + "; " + until("end") + "echo last"});
    ASSERT_TRUE(
        WaitForChange(folder_.path(), [this] { return std::filesystem::exists(folder_ / "up"); }));
    const std::string logs = job_->run(0) + "/attempt_0/0";
    ASSERT_TRUE(WaitForChange(logs, [this] { return Log() == "first\n"; }));
  }
  bool flooded() const { return std::filesystem::exists(folder_ / "flooded"); }
  void Raise(const std::string& name) { std::ofstream(folder_ / name).put('1'); }
  std::string Log() const { return ReadFile(job_->run(0) + "/attempt_0/0/stdout.log"); }
  Program& agent() { return job_->node(0); }

  TempDir folder_;
  std::optional<LoopDisk> disk_;
  std::optional<Job> job_;
};

TEST_F(FullDiskTest, WhatIsDroppedIsCountedInTheLogAndTheWorkerGoesOn) {
  Start("drop");
  disk_->Fill();
  Raise("flood");
  ASSERT_TRUE(
      agent().WaitForErr("No space left on device; the write is tried again until there is room"));
  ASSERT_TRUE(WaitForChange(folder_.path(), [this] { return flooded(); })) << agent().err();
  disk_->MakeRoom();
  ASSERT_TRUE(agent().WaitForErr("there is room again for log file "));
  Raise("end");
  EXPECT_EQ(agent().ExitCode(), 0);
  const std::string log = Log();
  EXPECT_THAT(log, StartsWith("first\nx"));
  EXPECT_THAT(log, EndsWith("\nlast\n"));
  std::smatch notice;
  ASSERT_TRUE(std::regex_search(
      log, notice,
      std::regex("\\n\\[ddprun: the disk was full; ([0-9]+) bytes are missing here\\]\\n")));
  EXPECT_EQ(log.size() - notice.length() + std::stoul(notice[1]),
            kFlood + std::string("first\nlast\n").size());
  EXPECT_THAT(agent().err(), HasSubstr("; " + notice[1].str() + " bytes of it are missing"));
}

// A restart needs folders for the logs of its generation. Seen red with an agent that does not try
// again: three generations fail within 0.2 s, and the job ends with 126.
TEST_F(FullDiskTest, ARestartWaitsForRoomAndFailsNobody) {
  job_->AddNode({"--nproc-per-node", "2", "--max-restarts", "1", "sh", "-c",
                 "touch " + (folder_ / "up") + "$RANK; [ $DDPRUN_GENERATION = 1 ] && exit 0; " +
                     "until [ -e " + (folder_ / "fail") + " ]; do sleep 0.05; done; exit 3"});
  for (const std::string rank : {"0", "1"}) {
    ASSERT_TRUE(WaitForChange(folder_.path(), [&] {
      return std::filesystem::exists(folder_ / ("up" + rank));
    })) << agent().err();
  }
  disk_->Fill();
  std::error_code full;  // Fill() may have left a few blocks; each folder takes one
  for (int i = 0; !full; ++i) {
    std::filesystem::create_directory(disk_->path() + "/" + std::to_string(i), full);
  }
  Raise("fail");
  ASSERT_TRUE(agent().WaitForErr("the workers of this node start when there is room"))
      << agent().err();
  disk_->MakeRoom();
  EXPECT_EQ(agent().ExitCode(), 0) << agent().err();
  EXPECT_THAT(agent().err(), HasSubstr("restart 1 of 1"));
}

TEST_F(FullDiskTest, WithWaitTheWorkerWaitsAndNothingIsMissing) {
  Start("wait");
  disk_->Fill();
  Raise("flood");
  ASSERT_TRUE(agent().WaitForErr("beyond 4 MiB makes its worker wait"));
  disk_->MakeRoom();
  ASSERT_TRUE(WaitForChange(folder_.path(), [this] { return flooded(); })) << agent().err();
  Raise("end");
  EXPECT_EQ(agent().ExitCode(), 0);
  EXPECT_EQ(Log(), "first\n" + std::string(kFlood, 'x') + "last\n");
  EXPECT_THAT(agent().err(), HasSubstr("; nothing of it is missing"));
  EXPECT_THAT(agent().err(), Not(HasSubstr("bytes of it are missing")));
}

}  // namespace full_disk_test
}  // namespace ddprun
