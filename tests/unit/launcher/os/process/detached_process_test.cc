#include "launcher/os/process/detached_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace detached_process_test {

// The process is this test program again. With this flag it ends at once, with code 0.
constexpr const char* kListTests = "--gtest_list_tests";

// Opening the FIFO waits for its reader, like a file whose server does not answer.
TEST(DetachedProcessTest, ALogFileThatDoesNotAnswerHoldsNobodyUp) {
  const test::TempDir folder;
  const std::string log = folder / "log";
  ASSERT_EQ(::mkfifo(log.c_str(), 0600), 0);
  EventLoop loop;
  DetachedProcess process(&loop);
  process.StartSelf({kListTests}, log, {[](const absl::Status& why) { ADD_FAILURE() << why; }, {}});
  EXPECT_TRUE(process.running());
  const UniqueFd reader(::open(log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string said;
  EXPECT_TRUE(test::RunUntil(&loop, [&] {
    test::ReadAvailable(reader.get(), &said);
    return !process.running();
  }));
  test::ReadAvailable(reader.get(), &said);
  EXPECT_THAT(said, testing::HasSubstr("DetachedProcessTest."));
}

TEST(DetachedProcessTest, WhatCannotBeStartedIsNamed) {
  const test::TempDir folder;
  EventLoop loop;
  DetachedProcess process(&loop);
  absl::Status why;
  process.StartSelf({kListTests}, folder / "no/log",
                    {[&](const absl::Status& said) { why = said; }, {}});
  EXPECT_TRUE(test::RunUntil(&loop, [&] { return !process.running(); }));
  EXPECT_THAT(std::string(why.message()), testing::HasSubstr("cannot start ddprun --gtest_list"));
}

// The loop notices the end by itself, without a call of running(). GoogleTest refuses a shard that
// does not exist.
TEST(DetachedProcessTest, AnEndIsToldWithTheLastLineOfTheLog) {
  const test::TempDir folder;
  test::WriteFile(folder / "log", "of an earlier process\n", 0600);
  ASSERT_EQ(::setenv("GTEST_TOTAL_SHARDS", "1", 1), 0);
  ASSERT_EQ(::setenv("GTEST_SHARD_INDEX", "5", 1), 0);
  EventLoop loop;
  DetachedProcess process(&loop);
  std::optional<DetachedProcess::Ended> end;
  process.StartSelf({kListTests + std::string("=0")}, folder / "log",
                    {[](const absl::Status& why) { ADD_FAILURE() << why; },
                     [&](const DetachedProcess::Ended& ended) { end = ended; }});
  ASSERT_TRUE(test::RunUntil(&loop, [&] { return end.has_value(); }));
  ASSERT_EQ(::unsetenv("GTEST_TOTAL_SHARDS"), 0);
  ASSERT_EQ(::unsetenv("GTEST_SHARD_INDEX"), 0);
  EXPECT_EQ(end->status.Describe(), "exit code 1");
  EXPECT_THAT(end->last_line, testing::HasSubstr("GTEST_SHARD_INDEX"));
  EXPECT_FALSE(process.running());
}

}  // namespace detached_process_test
}  // namespace ddprun
