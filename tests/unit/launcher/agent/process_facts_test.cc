// The facts about a process from /proc.
#include "launcher/agent/process_facts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <future>
#include <string>
#include <thread>

namespace ddprun {
namespace process_facts_test {

// Seen red where only the process itself counted: an upload by a child did not count as work.
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

TEST(ProcessFactsTest, WhatItsSocketsHaveCarriedIsKnownOnceTheNodesCountersAre) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct stat info;
  ASSERT_EQ(::fstat(socket, &info), 0);
  EXPECT_EQ(ReadProcessFacts(::getpid()).tcp_bytes, std::nullopt);
  const TcpBytes node = {{info.st_ino, 300}, {1, 70'000}};
  EXPECT_EQ(ReadProcessFacts(::getpid(), ::getpid(), &node).tcp_bytes,
            (TcpBytes{{info.st_ino, 300}}));
  ::close(socket);
}

TEST(ProcessFactsTest, EveryThreadHasItsWaitForACpu) {
  std::promise<pid_t> started;
  std::promise<void> end;
  std::thread other([&] {
    started.set_value(::gettid());
    end.get_future().wait();
  });
  const pid_t tid = started.get_future().get();
  ProcessFacts facts;
  do {  // never ends if a sleeping thread is reported to want a CPU
    facts = ReadProcessFacts(::getpid());
  } while (facts.wants.contains(tid));
  EXPECT_TRUE(facts.waited.contains(::getpid()));
  EXPECT_TRUE(facts.waited.contains(tid));
  EXPECT_GT(facts.wants.at(::getpid()).count(), 0) << "this one runs";
  end.set_value();
  other.join();
}

// A thread of the agent that copies stacks can be left behind while it still traces the process.
// Seen red where every tracer was taken for a debugger: the job was never called a hang.
TEST(ProcessFactsTest, AThreadOfThisProcessIsNoDebugger) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, child, 0, 0), 0);
  ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, child, 0, 0), 0);
  ASSERT_EQ(::waitpid(child, nullptr, __WALL), child);
  EXPECT_EQ(ReadProcessFacts(child).state, ProcessState::kRunnable);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// A forgotten debugger excuses the rank for ever. So the report must name the debugger.
TEST(ProcessFactsTest, WhoTracesItIsTold) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t tracer = ::fork();
  ASSERT_GE(tracer, 0);
  if (tracer == 0) {
    const pid_t traced = ::fork();
    if (traced == 0) {
      ::ptrace(PTRACE_TRACEME, 0, 0, 0);
      ::raise(SIGSTOP);
      ::_exit(0);
    }
    ::waitpid(traced, nullptr, __WALL);
    if (::write(ready[1], &traced, sizeof(traced)) < 0) ::_exit(1);
    for (;;) ::pause();
  }
  pid_t traced = 0;
  ASSERT_EQ(::read(ready[0], &traced, sizeof(traced)), static_cast<ssize_t>(sizeof(traced)));
  const ProcessFacts facts = ReadProcessFacts(traced);
  EXPECT_EQ(facts.state, ProcessState::kTraced);
  EXPECT_EQ(facts.tracer, "is held by launcher_test (pid " + std::to_string(tracer) + ")");
  ::kill(traced, SIGKILL);
  ::kill(tracer, SIGKILL);
  ::waitpid(tracer, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

// For example, the worker is a shell that starts the training. Seen red where only the worker was
// looked at: the shell waited for its child and seemed healthy.
TEST(ProcessFactsTest, ARankIsStoppedIfOneOfItsProcessesIs) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  const std::string name = "process " + std::to_string(child) + " (launcher_test)";
  EXPECT_EQ(ReadProcessFacts(::getpid(), child).state, ProcessState::kRunnable);
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(child, nullptr, WUNTRACED), child);
  for (const pid_t speaker : {child, ::getpid()}) {
    const ProcessFacts facts = ReadProcessFacts(::getpid(), speaker);
    EXPECT_EQ(facts.state, ProcessState::kStopped);
    EXPECT_EQ(facts.waits_for, name);
  }
  EXPECT_EQ(ReadProcessFacts(child).state, ProcessState::kStopped);
  EXPECT_EQ(ReadProcessFacts(child).waits_for, "") << "a worker is named anyway";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

#ifndef __SANITIZE_THREAD__  // TSan turns vfork() into fork(): no process is in disk wait

// For the kernel, a process that calls vfork() is in disk wait until its child executes a program.
// This one waits until it is killed, and its child ends with it.
class ChildInDiskWait {
 public:
  ChildInDiskWait() : pid_(::fork()) {
    if (pid_ != 0) return;
    const pid_t parent = ::getpid();
    if (::vfork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (::getppid() == parent) ::pause();
    }
    ::_exit(0);
  }
  ~ChildInDiskWait() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ChildInDiskWait(const ChildInDiskWait&) = delete;
  ChildInDiskWait& operator=(const ChildInDiskWait&) = delete;
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

// A child may write a checkpoint in the background, while the rank trains.
TEST(ProcessFactsTest, AChildInDiskWaitIsToldAndTheRankIsNotInIt) {
  const ChildInDiskWait waiting;
  const pid_t child = waiting.pid();
  ProcessFacts facts = ReadProcessFacts(::getpid());
  for (int i = 0; i < 10'000 && !facts.disk; ++i) {
    ::usleep(1000);
    facts = ReadProcessFacts(::getpid());
  }
  ASSERT_TRUE(facts.disk.has_value());
  EXPECT_EQ(facts.disk->thread, child);
  EXPECT_EQ(facts.disk->process, "launcher_test");
  EXPECT_NE(facts.state, ProcessState::kDiskWait);
}

TEST(ProcessFactsTest, AThreadThatStaysInDiskWaitIsTheSameAtTwoLooks) {
  const ChildInDiskWait waiting;
  const pid_t child = waiting.pid();
  ProcessFacts facts = ReadProcessFacts(child);
  for (int i = 0; i < 10'000 && facts.state != ProcessState::kDiskWait; ++i) {
    ::usleep(1000);
    facts = ReadProcessFacts(child);
  }
  ASSERT_TRUE(facts.disk.has_value());
  EXPECT_EQ(facts.disk->thread, child);
  EXPECT_TRUE(ReadProcessFacts(child).disk->IsThatOf(*facts.disk));
  ++facts.disk->switches;
  EXPECT_FALSE(ReadProcessFacts(child).disk->IsThatOf(*facts.disk));
}

#endif  // __SANITIZE_THREAD__

}  // namespace process_facts_test
}  // namespace ddprun
