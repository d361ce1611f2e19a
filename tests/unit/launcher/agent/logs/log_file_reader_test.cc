#include "launcher/agent/logs/log_file_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/support/temp_dir.h"

namespace ddprun {
namespace log_file_reader_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LogFileReaderTest : public testing::Test {
 protected:
  LogFileReaderTest() { fs::create_directories(path().parent_path()); }

  fs::path path() const { return fs::path(run_.path()) / "attempt_2/1/stdout.log"; }
  fs::path older() const { return path().string() + ".1"; }
  static void Write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::app | std::ios::binary) << text;
  }

  LogFileReader Reader(LogSpan span = {}) const {
    ReadLog wanted{Generation{2}, LocalRank{1}, LogStream::kStdout, span, false, 1};
    return {run_.path(), wanted, written_};
  }
  // Reads until nothing is left, `most` bytes at a time.
  static std::string ReadAll(LogFileReader reader, std::size_t most = 1 << 20) {
    std::string all;
    for (;;) {
      const auto chunk = reader.Read(most);
      EXPECT_TRUE(chunk.ok()) << chunk.status();
      if (!chunk.ok() || chunk->text.empty()) return all;
      all += chunk->text;
    }
  }
  std::string Tail(int lines) const {
    LogSpan span;
    span.lines = lines;
    return ReadAll(Reader(span));
  }
  absl::Status WhyNot() const {
    auto reader = Reader();
    return reader.Read(100).status();
  }

  const TempDir run_;
  const std::shared_ptr<WrittenFiles> written_ = std::make_shared<WrittenFiles>();
};

TEST_F(LogFileReaderTest, ReadsUpToTheEndOfALineWhereThereIsOne) {
  Write(path(), "one\ntwo\n" + std::string(20, 'x'));
  auto reader = Reader();
  EXPECT_EQ(reader.Read(9)->text, "one\ntwo\n");
  EXPECT_EQ(reader.Read(9)->text, std::string(9, 'x'));
  EXPECT_EQ(reader.Read(100)->text, std::string(11, 'x'));
  EXPECT_EQ(reader.Read(100)->text, "");
  Write(path(), "more");
  EXPECT_EQ(reader.Read(100)->text, "more");
}

TEST_F(LogFileReaderTest, TheLastLines) {
  Write(path(), "one\ntwo\nthree\nfour");
  EXPECT_EQ(Tail(0), "");
  EXPECT_EQ(Tail(1), "four");
  EXPECT_EQ(Tail(2), "three\nfour");
  EXPECT_EQ(Tail(4), "one\ntwo\nthree\nfour");
  EXPECT_EQ(Tail(1000), "one\ntwo\nthree\nfour");
  Write(path(), "\n");
  EXPECT_EQ(Tail(1), "four\n");
  Write(path(), "\n");
  EXPECT_EQ(Tail(1), "\n");
}

TEST_F(LogFileReaderTest, TheLastLinesOfALargeFileReachOverItsBlocks) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "line " + std::to_string(i) + "\n";
  Write(path(), text);
  const std::string tail = Tail(30'000);
  EXPECT_EQ(tail.substr(0, 11), "line 20000\n");
  EXPECT_TRUE(text.ends_with(tail));
}

TEST_F(LogFileReaderTest, TheLastBytesBeginWithALine) {
  Write(path(), "one\ntwo\nthree\n");
  LogSpan span;
  span.bytes = 9;
  EXPECT_EQ(ReadAll(Reader(span)), "three\n");
  span.bytes = 6;
  EXPECT_EQ(ReadAll(Reader(span)), "three\n") << "a line that begins there is whole";
  span.bytes = 1000;
  EXPECT_EQ(ReadAll(Reader(span)), "one\ntwo\nthree\n");
}

TEST_F(LogFileReaderTest, WhatWasWrittenSince) {
  const auto now = std::chrono::steady_clock::now();
  Write(path(), "old\nnew\n");
  written_->Opened(path());
  written_->Wrote(path(), 4, now - std::chrono::hours(2));
  written_->Wrote(path(), 4, now - std::chrono::minutes(1));
  LogSpan span;
  span.since = std::chrono::minutes(10);
  EXPECT_EQ(ReadAll(Reader(span)), "new\n");
  span.since = std::chrono::hours(3);
  EXPECT_EQ(ReadAll(Reader(span)), "old\nnew\n");
  span.since = std::chrono::seconds(1);
  EXPECT_EQ(ReadAll(Reader(span)), "");
}

TEST_F(LogFileReaderTest, TheFileThatWasPutAsideComesFirst) {
  Write(older(), "one\ntwo\n");
  Write(path(), "three\n");
  EXPECT_EQ(ReadAll(Reader(), 5), "one\ntwo\nthree\n");
  EXPECT_EQ(Tail(2), "two\nthree\n");
}

TEST_F(LogFileReaderTest, GoesOnInTheFileThatReplacesIt) {
  Write(path(), "one\n");
  auto reader = Reader();
  EXPECT_EQ(reader.Read(100)->text, "one\n");
  Write(path(), "two\n");
  fs::rename(path(), older());
  EXPECT_EQ(reader.Read(100)->text, "two\n");
  EXPECT_EQ(reader.Read(100)->text, "") << "there is no new one yet";
  Write(path(), "three\n");
  EXPECT_EQ(reader.Read(100)->text, "three\n");
}

TEST_F(LogFileReaderTest, SaysWhereSomethingMayBeMissing) {
  Write(path(), "one\n");
  auto reader = Reader();
  EXPECT_EQ(reader.Read(100)->text, "one\n");
  fs::rename(path(), older());
  Write(path(), "two\n");
  fs::rename(path(), older());
  Write(path(), "three\n");
  EXPECT_THAT(reader.Read(200)->text, HasSubstr("may be missing"));
  EXPECT_EQ(reader.Read(100)->text, "two\n");
  EXPECT_EQ(reader.Read(100)->text, "three\n");
}

TEST_F(LogFileReaderTest, AFileThatIsNotThereMayCome) {
  auto reader = Reader();
  EXPECT_TRUE(reader.Read(100)->missing);
  Write(path(), "here\n");
  EXPECT_EQ(reader.Read(100)->text, "here\n");
}

TEST_F(LogFileReaderTest, ALinkIsNotFollowed) {
  Write(fs::path(run_.path()) / "secret", "secret\n");
  fs::create_symlink(fs::path(run_.path()) / "secret", path());
  EXPECT_THAT(std::string(WhyNot().message()), HasSubstr("stdout.log is a link"));
  fs::remove(path());
  fs::create_symlink(fs::path(run_.path()) / "secret", older());
  Write(path(), "mine\n");
  EXPECT_EQ(ReadAll(Reader()), "mine\n");
}

TEST_F(LogFileReaderTest, ALinkInPlaceOfAFolderIsNotFollowed) {
  const fs::path folder = path().parent_path();
  fs::create_directories(fs::path(run_.path()) / "elsewhere");
  Write(fs::path(run_.path()) / "elsewhere/stdout.log", "secret\n");
  fs::remove_all(folder);
  fs::create_symlink("../elsewhere", folder);
  EXPECT_THAT(std::string(WhyNot().message()), HasSubstr("1 is a link or no folder"));
  fs::remove(folder);
  fs::remove(folder.parent_path());
  fs::create_directories(fs::path(run_.path()) / "elsewhere/1");
  Write(fs::path(run_.path()) / "elsewhere/1/stdout.log", "secret\n");
  fs::create_symlink("elsewhere", folder.parent_path());
  EXPECT_THAT(std::string(WhyNot().message()), HasSubstr("attempt_2 is a link or no folder"));
}

TEST_F(LogFileReaderTest, APipeIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_THAT(std::string(WhyNot().message()), HasSubstr("no regular file"));
}

}  // namespace log_file_reader_test
}  // namespace ddprun
