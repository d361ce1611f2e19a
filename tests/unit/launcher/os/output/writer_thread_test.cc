#include "launcher/os/output/writer_thread.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace writer_thread_test {

using test::RunUntil;
using ::testing::ElementsAre;
using Clock = std::chrono::steady_clock;

class WriterThreadTest : public ::testing::Test {
 protected:
  // A log file on a disk that does not answer: opening a FIFO blocks until someone reads it.
  std::string HungFile() {
    const std::string path = dir_ / "hung";
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return path;
  }

  static UniqueFd UnhangReader(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }

  WriterThread::ErrorHandler RecordErrors() {
    return [this](const absl::Status& error) { errors_.emplace_back(error.message()); };
  }

  const test::TempDir dir_;
  EventLoop loop_;
  std::vector<std::string> errors_;
};

TEST_F(WriterThreadTest, WritesEachFileInOrderAndMakesItsFolders) {
  WriterThread writer(&loop_, RecordErrors());
  const auto a = writer.Open(dir_ / "attempt_0/0/stdout.log", [] {});
  const auto b = writer.Open(dir_ / "attempt_0/1/stdout.log", [] {});
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    expected += line;
    EXPECT_TRUE(writer.Write(a, line));
  }
  EXPECT_TRUE(writer.Write(b, "b"));
  writer.Close(a);
  writer.Close(b);
  ASSERT_TRUE(writer.Flush(Clock::now() + test::kPatience));
  EXPECT_EQ(test::ReadFile(dir_ / "attempt_0/0/stdout.log"), expected);
  EXPECT_EQ(test::ReadFile(dir_ / "attempt_0/1/stdout.log"), "b");
}

TEST_F(WriterThreadTest, AppendsToWhatIsThereAndMakesAFileEvenWithoutOutput) {
  test::WriteFile(dir_ / "old.log", "before\n", 0644);
  WriterThread writer(&loop_, RecordErrors());
  writer.Write(writer.Open(dir_ / "old.log", [] {}), "after\n");
  writer.Open(dir_ / "empty.log", [] {});
  ASSERT_TRUE(writer.Flush(Clock::now() + test::kPatience));
  EXPECT_EQ(test::ReadFile(dir_ / "old.log"), "before\nafter\n");
  EXPECT_EQ(::access((dir_ / "empty.log").c_str(), F_OK), 0);
}

TEST_F(WriterThreadTest, AHungFilePushesBackAndIsCaughtUpWithOnceItMoves) {
  const std::string path = HungFile();
  WriterThread writer(&loop_, RecordErrors());
  int drained = 0;
  const auto file = writer.Open(path, [&] { ++drained; });
  const std::string chunk(64 << 10, 'x');
  std::size_t total = 0;
  bool room = true;
  while (room) {
    room = writer.Write(file, chunk);
    total += chunk.size();
    ASSERT_LE(total, WriterThread::kHighWater + chunk.size());
  }
  EXPECT_GT(total, WriterThread::kHighWater);
  EXPECT_FALSE(writer.Flush(Clock::now()));
  EXPECT_EQ(drained, 0);

  const UniqueFd reader = UnhangReader(path);
  std::string text;
  EXPECT_TRUE(RunUntil(&loop_, [&] {
    test::ReadAvailable(reader.get(), &text);
    return drained == 1 && text.size() == total;
  }));
  EXPECT_TRUE(writer.Flush(Clock::now() + test::kPatience));
  EXPECT_EQ(writer.PeakQueuedBytes(), total);
  EXPECT_TRUE(writer.Write(file, "there is room again"));
  EXPECT_TRUE(RunUntil(&loop_, [&] {
    test::ReadAvailable(reader.get(), &text);
    return text.ends_with("there is room again");
  }));
  EXPECT_EQ(drained, 1);
}

TEST_F(WriterThreadTest, AClosedFileIsNeverCalledBack) {
  const std::string path = HungFile();
  WriterThread writer(&loop_, RecordErrors());
  int drained = 0;
  const auto file = writer.Open(path, [&] { ++drained; });
  EXPECT_FALSE(writer.Write(file, std::string(WriterThread::kHighWater + 1, 'x')));
  writer.Close(file);
  const UniqueFd reader = UnhangReader(path);
  std::string text;
  EXPECT_TRUE(RunUntil(&loop_, [&] {
    return !test::ReadAvailable(reader.get(), &text) && writer.Flush(Clock::now());
  }));
  EXPECT_EQ(text.size(), WriterThread::kHighWater + 1);
  EXPECT_EQ(drained, 0);
}

TEST_F(WriterThreadTest, AFileThatCannotBeWrittenIsGivenUpWithOneError) {
  WriterThread writer(&loop_, RecordErrors());
  const auto good = writer.Open(dir_ / "good.log", [] {});
  const auto bad = writer.Open("/dev/null/stdout.log", [] {});
  for (int i = 0; i < 100; ++i) {
    writer.Write(good, "kept");
    writer.Write(bad, "lost");
  }
  ASSERT_TRUE(RunUntil(&loop_, [&] { return !errors_.empty(); }));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(writer.Write(bad, "lost"));
  ASSERT_TRUE(writer.Flush(Clock::now() + test::kPatience));
  int turns = 0;
  ASSERT_TRUE(RunUntil(&loop_, [&] { return ++turns > 3; }));
  EXPECT_THAT(errors_, testing::ElementsAre("cannot make folder /dev/null: Not a directory"));
  EXPECT_EQ(test::ReadFile(dir_ / "good.log").size(), 400u);
}

// tests/integration/full_disk_test.cc tests a disk that gets room again.
TEST_F(WriterThreadTest, OnAFullDiskNobodyWaitsAndItIsTriedAgain) {
  WriterThread writer(&loop_, RecordErrors());
  const auto full = writer.Open("/dev/full", [] {});
  const auto good = writer.Open(dir_ / "good.log", [] {});
  const std::string chunk(1 << 20, 'x');
  writer.Write(full, "x");
  ASSERT_TRUE(RunUntil(&loop_, [&] { return !errors_.empty(); }));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(writer.Write(full, chunk));
  EXPECT_LE(writer.PeakQueuedBytes(), WriterThread::kHighWater);
  writer.Write(good, "kept");
  EXPECT_FALSE(writer.Flush(Clock::now() + test::kPatience));
  EXPECT_EQ(test::ReadFile(dir_ / "good.log"), "kept");
  EXPECT_THAT(errors_, testing::ElementsAre(testing::StartsWith(
                           "cannot write log file /dev/full: No space left on device; the write "
                           "is tried again until there is room")));
}

TEST_F(WriterThreadTest, OnAFullDiskWhoMustLoseNothingWaits) {
  WriterThread writer(&loop_, RecordErrors(), {.when_full = WriterThread::WhenFull::kWait});
  const auto full = writer.Open("/dev/full", [] {});
  writer.Write(full, "x");
  ASSERT_TRUE(RunUntil(&loop_, [&] { return !errors_.empty(); }));
  EXPECT_FALSE(writer.Write(full, std::string(WriterThread::kHighWater, 'x')));
}

TEST_F(WriterThreadTest, EndsInTimeThoughAFileHangs) {
  const std::string path = HungFile();
  const Clock::time_point start = Clock::now();
  {
    WriterThread writer(&loop_, RecordErrors());
    writer.Write(writer.Open(path, [] {}), "never written");
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  // The writer's thread was left behind. A reader lets it end before the test ends.
  const UniqueFd reader = UnhangReader(path);
  loop_.Watch(reader.get(), EPOLLIN, [](std::uint32_t) {});  // wakes the loop, which checks again
  std::string text;
  EXPECT_TRUE(RunUntil(&loop_, [&] {
    return !test::ReadAvailable(reader.get(), &text) && text == "never written";
  }));
  loop_.Unwatch(reader.get());
}

}  // namespace writer_thread_test
}  // namespace ddprun
