#include "worker/src/storage/durable_file.h"

#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp::internal {
namespace durable_file_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The text that WriteDurably() throws.
std::string ErrorOfWriting(const std::string& folder, const std::string& content,
                           const std::string& name = "name") {
  try {
    WriteDurably(folder, name, {content});
  } catch (const CheckpointError& e) {
    return e.what();
  }
  return "none";
}

// While this lives, files of this process cannot grow to `bytes` bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  const sighandler_t handler_;
  rlimit before_ = {};
};

// The pid of a process that has ended.
pid_t EndedProcess() {
  char name[] = "true";
  char* arguments[] = {name, nullptr};
  pid_t pid = -1;
  EXPECT_EQ(posix_spawnp(&pid, name, nullptr, nullptr, arguments, environ), 0);
  waitpid(pid, nullptr, 0);
  return pid;
}

// The temporary name of process `pid` for folder/step-1.
std::string TemporaryOf(const std::string& folder, pid_t pid) {
  const std::string mine = TemporaryPath(folder + "/step-1");
  const std::string end = std::to_string(getpid()) + ".tmp";
  return mine.substr(0, mine.size() - end.size()) + std::to_string(pid) + ".tmp";
}

void Write(const std::string& path) { std::ofstream(path) << "half"; }

TEST(WriteDurablyTest, CreatesTheFolderAndLeavesNothingElse) {
  const ddprun::TempDir folder;
  WriteDurably(folder / "a/b", "name", {"one", "", "two"});
  WriteDurably(folder / "a/b", "name", {"three"});
  EXPECT_EQ(test::ReadFile(folder / "a/b/name"), "three");
  EXPECT_THAT(test::FilesIn(folder / "a/b"), ElementsAre("name"));
}

TEST(WriteDurablyTest, AFullDiskIsAnErrorThatNamesThePath) {
  const ddprun::TempDir folder;
  const std::string temporary = TemporaryPath(folder / "name");
  fs::create_symlink("/dev/full", temporary);
  EXPECT_THAT(ErrorOfWriting(folder.path(), "content"),
              HasSubstr(temporary + ": No space left on device"));
  EXPECT_THAT(test::FilesIn(folder.path()), IsEmpty());
}

TEST(WriteDurablyTest, AFailedWriteGivesTheSpaceBackAndLeavesTheOldFile) {
  const ddprun::TempDir folder;
  WriteDurably(folder.path(), "name", {"old"});
  const FileSizeLimit limit(100);
  EXPECT_THAT(ErrorOfWriting(folder.path(), std::string(1000, 'x')), HasSubstr("File too large"));
  EXPECT_THAT(test::FilesIn(folder.path()), ElementsAre("name"));
  EXPECT_EQ(test::ReadFile(folder / "name"), "old");
}

TEST(WriteDurablyTest, AFailedRenameLeavesNoTemporary) {
  const ddprun::TempDir folder;
  fs::create_directory(folder / "name");
  EXPECT_THAT(ErrorOfWriting(folder.path(), "content"), StartsWith("cannot rename to "));
  EXPECT_THAT(test::FilesIn(folder.path()), ElementsAre("name"));
}

TEST(AbandonedTemporariesTest, AreThoseOfProcessesThatHaveEnded) {
  const ddprun::TempDir folder;
  const std::string ended = TemporaryOf(folder.path(), EndedProcess());
  Write(ended);
  Write(TemporaryOf(folder.path(), getppid()));  // its process runs
  EXPECT_THAT(AbandonedTemporaries(folder.path(), "step-"), ElementsAre(ended));
  EXPECT_THAT(AbandonedTemporaries(folder.path(), "other-"), IsEmpty());
  EXPECT_THAT(AbandonedTemporaries(folder / "none", "step-"), IsEmpty());
}

// The pid of another PID namespace means nothing here.
TEST(AbandonedTemporariesTest, ThatOfAnotherHostIsOneWhenNobodyWroteToItForADay) {
  const ddprun::TempDir folder;
  const std::string other =
      folder / ("step-1.elsewhere-4026531836-" + std::to_string(EndedProcess()) + ".tmp");
  Write(other);
  EXPECT_THAT(AbandonedTemporaries(folder.path(), "step-"), IsEmpty());
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(other, now - std::chrono::hours(23));
  EXPECT_THAT(AbandonedTemporaries(folder.path(), "step-"), IsEmpty());
  fs::last_write_time(other, now - std::chrono::hours(25));
  EXPECT_THAT(AbandonedTemporaries(folder.path(), "step-"), ElementsAre(other));
}

// Another Checkpointer of this process may search for abandoned files meanwhile. Seen red when all
// files with the pid of this process counted as files of an earlier process.
TEST(AbandonedTemporariesTest, WhatThisProcessIsWritingIsNone) {
  const ddprun::TempDir folder;
  WriteDurably(folder.path(), "step-1", [&](const Sink& sink) {
    sink("half");
    EXPECT_THAT(AbandonedTemporaries(folder.path(), "step-"), IsEmpty());
    EXPECT_THAT(ErrorOfWriting(folder.path(), "other", "step-1"),
                HasSubstr("this process is writing it already"));
  });
  EXPECT_EQ(test::ReadFile(folder / "step-1"), "half");
}

TEST(AbandonedTemporariesTest, FilesWithOtherNamesAreNone) {
  const ddprun::TempDir folder;
  for (const char* name : {"step-1.tmp", "step-1", ".tmp", "step-.tmp", "step-1.a-b.tmp"}) {
    Write(folder / name);
  }
  EXPECT_THAT(AbandonedTemporaries(folder.path(), "step-"), IsEmpty());
}

}  // namespace durable_file_test
}  // namespace ddp::internal
