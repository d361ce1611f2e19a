#include "launcher/agent/usage/usage_meter.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

#include "launcher/agent/usage/process_use.h"

namespace ddprun {
namespace usage_meter_test {

constexpr char kStat[] =
    "4242 (a) b) S 1 4242 4242 0 -1 4194304 100 0 0 0 150 50 7 8 20 0 3 0 9999 1000000 250 "
    "18446744073709551615 1 1";

TEST(ProcessUseTest, ReadsWhatProcSays) {
  const auto use =
      ParseProcessUse(4242, kStat, "rchar: 300\nwchar: 40\nread_bytes: 7\n", 100, 4096);
  ASSERT_TRUE(use);
  EXPECT_EQ(use->process, (ProcessId{4242, 9999}));
  EXPECT_EQ(use->use, (Use{std::chrono::milliseconds(2000), 300, 40, 250 * 4096}));
}

TEST(ProcessUseTest, WhatIsNoStatIsNone) {
  EXPECT_FALSE(ParseProcessUse(1, "", "", 100, 4096));
  EXPECT_FALSE(ParseProcessUse(1, "1 (x) S 1 2 3", "", 100, 4096));
}

// Starts a process that writes `bytes` to /dev/null, and then waits until it is killed.
pid_t StartWriter(std::size_t bytes) {
  int ready[2];
  if (pipe(ready) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    const std::string text(bytes, 'x');
    FILE* const null = fopen("/dev/null", "w");
    fwrite(text.data(), 1, text.size(), null);
    fflush(null);
    [[maybe_unused]] const auto told = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte;
  [[maybe_unused]] const auto heard = read(ready[0], &byte, 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

void End(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(UsageMeterTest, TheEndOfAProcessTakesNothingAway) {
  UsageMeter meter;
  const pid_t first = StartWriter(1'000'000);
  const auto before = meter.Look({{Rank{3}, first}});
  EXPECT_GE(before.all.written_bytes, 1'000'000);
  EXPECT_GT(before.all.resident_bytes, 0);
  ASSERT_EQ(before.ranks.size(), 1u);
  EXPECT_EQ(before.ranks[0].rank, Rank{3});
  End(first);
  const pid_t second = StartWriter(500'000);
  const auto after = meter.Look({{Rank{3}, second}});
  End(second);
  EXPECT_GE(after.all.written_bytes, before.all.written_bytes + 500'000);
  EXPECT_GE(after.ranks[0].use.written_bytes, before.all.written_bytes + 500'000);
  const auto none = meter.Look({});
  EXPECT_EQ(none.all.written_bytes, after.all.written_bytes);
  EXPECT_EQ(none.all.resident_bytes, 0);
  EXPECT_TRUE(none.ranks.empty());
}

TEST(UsageMeterTest, LookingTwiceCountsOnce) {
  UsageMeter meter;
  const pid_t child = StartWriter(1'000'000);
  const auto first = meter.Look({{Rank{0}, child}});
  const auto second = meter.Look({{Rank{0}, child}});
  End(child);
  EXPECT_EQ(second.all.written_bytes, first.all.written_bytes);
  EXPECT_EQ(meter.last(), second.all);
}

}  // namespace usage_meter_test
}  // namespace ddprun
