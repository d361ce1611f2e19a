#include "launcher/os/output/log_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace log_file_test {

using ::testing::HasSubstr;

class LogFileTest : public ::testing::Test {
 protected:
  // Appends `bytes`, which must succeed. Adds an error of a rename to cannot_rename_.
  void Append(LogFile* file, std::string bytes) {
    absl::Status cannot_rename;
    EXPECT_TRUE(file->Append(&bytes, &cannot_rename).ok());
    EXPECT_EQ(bytes, "");
    if (!cannot_rename.ok()) cannot_rename_ += std::string(cannot_rename.message()) + "\n";
  }
  std::string Content(const std::string& name) const { return test::ReadFile(dir_ / name); }
  bool Exists(const std::string& name) const { return ::access((dir_ / name).c_str(), F_OK) == 0; }

  const test::TempDir dir_;
  std::string cannot_rename_;
};

// Seen red when Fitting() took all bytes.
TEST_F(LogFileTest, AtItsSizeItIsRenamedBetweenTwoLinesAndTheNewestStay) {
  LogFile file(dir_ / "log", 10);
  Append(&file, "one\ntwo\n");
  EXPECT_FALSE(Exists("log.1"));
  Append(&file, "three\n");
  EXPECT_EQ(Content("log.1"), "one\ntwo\n");
  EXPECT_EQ(Content("log"), "three\n");
  Append(&file, "four\n");
  EXPECT_EQ(Content("log.1"), "three\n");
  EXPECT_EQ(Content("log"), "four\n");
  EXPECT_FALSE(Exists("log.2"));
}

TEST_F(LogFileTest, MuchAtOnceIsCutIntoFilesToo) {
  LogFile file(dir_ / "log", 10);
  std::string all;
  for (int i = 0; i < 1000; ++i) all += std::to_string(i % 10) + "abc\n";
  Append(&file, all);
  EXPECT_EQ(Content("log.1"), "6abc\n7abc\n");
  EXPECT_EQ(Content("log"), "8abc\n9abc\n");
}

TEST_F(LogFileTest, ALineThatIsLargerThanAFileIsCut) {
  LogFile file(dir_ / "log", 4);
  Append(&file, "a\n");
  Append(&file, "0123456789\n");
  EXPECT_EQ(Content("log.1"), "4567");
  EXPECT_EQ(Content("log"), "89\n");
}

TEST_F(LogFileTest, WhatIsThereBeforeCounts) {
  test::WriteFile(dir_ / "log", "before\n", 0644);
  LogFile file(dir_ / "log", 10);
  Append(&file, "after\n");
  EXPECT_EQ(Content("log.1"), "before\n");
  EXPECT_EQ(Content("log"), "after\n");
}

TEST_F(LogFileTest, WithoutASizeItGrows) {
  LogFile file(dir_ / "log", 0);
  for (int i = 0; i < 1000; ++i) Append(&file, "0123456789\n");
  EXPECT_EQ(Content("log").size(), 11'000u);
  EXPECT_FALSE(Exists("log.1"));
}

TEST_F(LogFileTest, WhereItCannotBeRenamedNothingIsLostAndThatIsToldOnce) {
  ASSERT_EQ(::mkdir((dir_ / "log.1").c_str(), 0700), 0);
  LogFile file(dir_ / "log", 10);
  for (int i = 0; i < 10; ++i) Append(&file, "0123456\n");
  EXPECT_EQ(Content("log").size(), 80u);
  EXPECT_EQ(cannot_rename_, "cannot rename log file " + (dir_ / "log") + " to " + (dir_ / "log.1") +
                                ": Is a directory\n");
}

TEST_F(LogFileTest, OneThatWasRemovedIsMadeAgain) {
  LogFile file(dir_ / "log", 10);
  Append(&file, "0123456\n");
  ASSERT_EQ(::unlink((dir_ / "log").c_str()), 0);
  Append(&file, "abcdefg\n");
  EXPECT_EQ(Content("log"), "abcdefg\n");
}

TEST_F(LogFileTest, WhatCouldNotBeWrittenIsLeft) {
  LogFile file("/dev/full", 10);
  std::string bytes = "lost\n";
  absl::Status cannot_rename;
  EXPECT_THAT(std::string(file.Append(&bytes, &cannot_rename).message()),
              HasSubstr("cannot write log file /dev/full: No space left"));
  EXPECT_EQ(bytes, "lost\n");
}

}  // namespace log_file_test
}  // namespace ddprun
