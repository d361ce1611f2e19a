// What /proc says of a process.
#include "launcher/agent/process_facts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

namespace ddprun {
namespace process_facts_test {

// Seen red where the process alone counted: an upload by another program was no work.
TEST(ProcessFactsTest, WhatItsChildrenUseCounts) {
  int done[2];
  ASSERT_EQ(::pipe(done), 0);
  const ProcessFacts before = ReadProcessFacts(::getpid());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (std::clock() < CLOCKS_PER_SEC / 5) {
    }
    [[maybe_unused]] const ssize_t written = ::write(done[1], "x", 1);
    for (;;) ::pause();
  }
  char byte;
  EXPECT_EQ(::read(done[0], &byte, 1), 1);
  EXPECT_GE(ReadProcessFacts(::getpid()).cpu - before.cpu, std::chrono::milliseconds(150));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(done[0]);
  ::close(done[1]);
}

}  // namespace process_facts_test
}  // namespace ddprun
