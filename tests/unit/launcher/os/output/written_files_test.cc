#include "launcher/os/output/written_files.h"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace written_files_test {

using std::chrono::hours;
using std::chrono::seconds;

const WriteTimes::Time kStart{hours(100)};

TEST(WriteTimesTest, WhatWasWrittenSinceATime) {
  WriteTimes times;
  EXPECT_EQ(times.WrittenSince(kStart), 0u);
  times.Wrote(100, kStart);
  times.Wrote(10, kStart + seconds(60));
  times.Wrote(1, kStart + seconds(120));
  EXPECT_EQ(times.WrittenSince(kStart - seconds(1)), 111u);
  EXPECT_EQ(times.WrittenSince(kStart), 111u);
  EXPECT_EQ(times.WrittenSince(kStart + seconds(30)), 11u);
  EXPECT_EQ(times.WrittenSince(kStart + seconds(60)), 11u);
  EXPECT_EQ(times.WrittenSince(kStart + seconds(120)), 1u);
  EXPECT_EQ(times.WrittenSince(kStart + seconds(121)), 0u);
}

// One line each second for three days. The answer is never less than what was written, and little
// more.
TEST(WriteTimesTest, IsExactToAnEighthInBoundedMemory) {
  WriteTimes times;
  const int written = 3 * 24 * 3600;
  for (int second = 0; second < written; ++second) times.Wrote(1, kStart + seconds(second));
  const WriteTimes::Time now = kStart + seconds(written);
  for (const int ago : {1, 5, 60, 600, 3600, 36'000, 200'000}) {
    const auto found = static_cast<int>(times.WrittenSince(now - seconds(ago)));
    EXPECT_GE(found, ago);
    EXPECT_LE(found, ago + ago / 4 + 2 * static_cast<int>(WriteTimes::kMaxMarks)) << ago;
  }
}

TEST(WrittenFilesTest, WhoWaitsHearsOnceWhenThereIsMore) {
  WrittenFiles files;
  int heard = 0;
  const auto count = [&heard] { ++heard; };
  files.Opened("a");
  files.Wrote("a", 5, kStart);
  EXPECT_FALSE(files.Await("a", {true, 4}, count)) << "it has grown meanwhile";
  ASSERT_TRUE(files.Await("a", {true, 5}, count));
  files.Wrote("b", 5, kStart);
  files.Opened("b");
  EXPECT_EQ(heard, 0);
  files.Wrote("a", 1, kStart);
  files.Wrote("a", 1, kStart);
  EXPECT_EQ(heard, 1);
}

TEST(WrittenFilesTest, WhoWaitsHearsOfTheEndAndOfTheBegin) {
  WrittenFiles files;
  int heard = 0;
  const auto count = [&heard] { ++heard; };
  ASSERT_TRUE(files.Await("a", files.Look("a"), count)) << "it is not there yet";
  files.Opened("a");
  EXPECT_EQ(heard, 1);
  ASSERT_TRUE(files.Await("a", files.Look("a"), count));
  files.Closed("a");
  EXPECT_EQ(heard, 2);
  EXPECT_FALSE(files.Look("a").open);
  ASSERT_TRUE(files.Await("b", files.Look("b"), count));
  files.WakeAll();
  EXPECT_EQ(heard, 3);
  files.Silence();
  EXPECT_TRUE(files.Await("b", files.Look("b"), count));
  files.WakeAll();
  EXPECT_EQ(heard, 3);
}

TEST(WrittenFilesTest, ClosedFilesAreForgottenTheOldestFirst) {
  WrittenFiles files;
  for (std::size_t i = 0; i <= WrittenFiles::kMaxClosed; ++i) {
    const std::string path = std::to_string(i);
    files.Opened(path);
    files.Wrote(path, 1, kStart);
    files.Closed(path);
  }
  EXPECT_EQ(files.WrittenSince("0", kStart), std::nullopt);
  EXPECT_EQ(files.WrittenSince("1", kStart), 1u);
}

}  // namespace written_files_test
}  // namespace ddprun
