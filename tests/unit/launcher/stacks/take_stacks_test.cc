// Stacks of real processes: the reports show the right functions, and the processes continue
// unchanged.
#include "launcher/stacks/take_stacks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/os/process/process_id.h"
#include "launcher/stacks/process_facts.h"
#include "launcher/stacks/seize.h"
#include "rendezvous/stacks/stack_text.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/launcher/stacks/probe.h"

namespace ddprun::stacks {
namespace take_stacks_test {

using stacks_test::InChild;
using stacks_test::Probe;
using std::chrono::milliseconds;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::chrono::steady_clock::time_point In(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

std::string TextOf(const TakenStacks& taken) {
  StackTextOptions options;
  options.most_in_line = 0;
  return ToText(taken.tree, options);
}

std::string TextOf(pid_t pid) {
  const StackTarget target{3, pid};
  return TextOf(TakeStacks({&target, 1}, In(20)));
}

// Takes the stacks until `holds` returns true, for at most 10 s: a process that has printed "ready"
// may not wait yet.
std::string TextOnce(pid_t pid, const std::function<bool(const std::string&)>& holds) {
  std::string text = TextOf(pid);
  for (const auto until = In(10); !holds(text) && std::chrono::steady_clock::now() < until;) {
    text = TextOf(pid);
  }
  return text;
}

std::vector<std::string> Names(const std::vector<StackFrame>& frames) {
  std::vector<std::string> names;
  for (const StackFrame& frame : frames) names.push_back(frame.function);
  return names;
}

std::vector<StackFrame> Frames(const std::vector<std::pair<std::string, std::string>>& names) {
  std::vector<StackFrame> frames;
  for (const auto& [function, image] : names) frames.push_back({function, "x.c", 5, image});
  return frames;
}

TEST(TrimmedStackTest, WhatEveryThreadBeginsWithIsLeftOut) {
  EXPECT_THAT(Names(WithoutBeginning(Frames({{"", "train"},
                                             {"__libc_start_main", "libc.so.6"},
                                             {"__libc_start_call_main", "libc.so.6"},
                                             {"main", "train"}}))),
              testing::ElementsAre("main"));
  EXPECT_THAT(Names(WithoutBeginning(Frames({{"clone3", "libc.so.6"},
                                             {"start_thread", "libc.so.6"},
                                             {"", "libstdc++.so.6.0.30"},
                                             {"Loop", "train"}}))),
              testing::ElementsAre("Loop"));
  EXPECT_THAT(Names(WithoutBeginning(Frames({{"clone3", "libc.so.6"}}))),
              testing::ElementsAre("clone3"));
  // Frames as on a machine without libc6-dbg.
  EXPECT_THAT(Names(WithoutBeginning(Frames({{"", "train"},
                                             {"__libc_start_main", "libc.so.6"},
                                             {"", "libc.so.6"},
                                             {"main", "train"}}))),
              testing::ElementsAre("main"));
  EXPECT_THAT(Names(WithoutBeginning(Frames(
                  {{"", "libc.so.6"}, {"", "libc.so.6"}, {"Loop", "train"}, {"", "libc.so.6"}}))),
              testing::ElementsAre("Loop", ""));
  EXPECT_THAT(WithoutBeginning({}), testing::IsEmpty());
}

TEST(TrimmedStackTest, OfTheLibraryOnlyTheFunctionThatWasCalledIsLeft) {
  const std::vector<StackFrame> trimmed =
      WithoutLibcInside(Frames({{"main", "train"},
                                {"qsort", "libc.so.6"},
                                {"Compare", "train"},
                                {"", "libc.so.6"},
                                {"pthread_cond_wait", "libc.so.6"},
                                {"futex_wait", "libc.so.6"}}));
  EXPECT_THAT(Names(trimmed),
              testing::ElementsAre("main", "qsort", "Compare", "pthread_cond_wait"));
  EXPECT_EQ(trimmed.back().file, "");
  EXPECT_THAT(WithoutLibcInside({}), testing::IsEmpty());
}

class RunningStackTest : public testing::Test {
 protected:
  const std::string probe_ = STACK_PROBE;
};

TEST_F(RunningStackTest, AChainOfFunctionsWithItsLines) {
  const Probe probe({probe_, "chain"});
  const std::string text = TextOf(probe.pid());
  EXPECT_THAT(text, ContainsRegex("^1 main stack_probe.cc:[0-9]+ → Outer stack_probe.cc:[0-9]+ → "
                                  "Middle stack_probe.cc:[0-9]+ → Inner stack_probe.cc:[0-9]+"));
  EXPECT_THAT(text, Not(HasSubstr("rank 3:")));  // no note: nothing is missing
  EXPECT_THAT(text, Not(HasSubstr("other threads")));
  EXPECT_EQ(TextOf(probe.pid()).substr(0, 20), text.substr(0, 20));  // a second time
}

TEST_F(RunningStackTest, AllThreads) {
  const Probe probe({probe_, "threads", "20"});
  const std::vector<pid_t> pids = {probe.pid()};
  const std::vector<CopiedProcess> copied = CopyStacks(pids, In(20));
  ASSERT_EQ(copied[0].threads.size(), 21u);
  EXPECT_EQ(copied[0].threads[0].tid, probe.pid());
  for (const CopiedThread& thread : copied[0].threads) {
    EXPECT_TRUE(thread.copied.ok()) << thread.copied;
    EXPECT_TRUE(thread.stack_is_whole || thread.stack.size() == SeizeOptions().stack_bytes);
  }
  const std::string text = TextOnce(probe.pid(), [](const std::string& seen) {
    return seen.find("Inner") != std::string::npos && seen.find("InThread") != std::string::npos;
  });
  EXPECT_THAT(text, ContainsRegex("other threads:\n1 .*InThread stack_probe.cc:[0-9]+"));
}

// For example, a worker process of a DataLoader. Seen red where it counted as a main thread: the
// rank was in two places.
TEST_F(RunningStackTest, AnotherProcessOfTheRankStandsBelowItsNameAmongTheOtherThreads) {
  const Probe own({probe_, "chain"});
  const Probe other({probe_, "chain"});
  StackTarget targets[] = {{3, own.pid()},
                           {3, other.pid(), ProcessIdOf(other.pid()).started, true}};
  const std::string text = TextOf(TakeStacks(targets, In(20)));
  EXPECT_THAT(text, ContainsRegex("^1 main stack_probe.cc:[0-9]+ → Outer .*\n"
                                  "other threads:\n1 process stack_probe → main .* → Inner "));
  // The pid belongs to a new process now.
  ++targets[1].started;
  EXPECT_THAT(TextOf(TakeStacks(targets, In(20))), Not(HasSubstr("process")));
}

TEST_F(RunningStackTest, OneProgramInSeveralProcessesIsOneTree) {
  const Probe a({probe_, "chain"});
  const Probe b({probe_, "chain"});
  const Probe c({probe_, "busy"});
  const std::vector<StackTarget> targets = {{0, a.pid()}, {1, b.pid()}, {2, c.pid()}};
  const TakenStacks taken = TakeStacks(targets, In(20));
  const std::string text = TextOf(taken);
  EXPECT_THAT(text, ContainsRegex("^3 main\n├ 2 \\[0-1\\] stack_probe.cc:[0-9]+ → Outer "));
  EXPECT_THAT(text,
              ContainsRegex("└ 1 \\[2\\] stack_probe.cc:[0-9]+ → Spin stack_probe.cc:[0-9]+\n"));
  EXPECT_EQ(taken.missing, 0u);
}

TEST_F(RunningStackTest, AReadThatWaitsNamesItsFifo) {
  std::string folder = testing::TempDir() + "stacksXXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string fifo = folder + "/shard-0017";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  {
    const Probe probe({probe_, "fifo", fifo});
    const std::string expected = "rank 3: main thread: S (waiting), in read(" + fifo + ")";
    const std::string text = TextOnce(probe.pid(), [&](const std::string& seen) {
      return seen.find(expected) != std::string::npos;
    });
    EXPECT_THAT(text, HasSubstr(expected));
    EXPECT_THAT(text, ContainsRegex("ReadFifo stack_probe.cc:[0-9]+ → [^\n]*read"));
  }
  ::unlink(fifo.c_str());
  ::rmdir(folder.c_str());
}

TEST_F(RunningStackTest, OneThatWasStoppedStaysStoppedAndIsReported) {
  const Probe probe({probe_, "threads", "2"});
  probe.SignalAndWaitFor(SIGSTOP, 'T');
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(TextOf(probe.pid()), HasSubstr("rank 3: stopped by a signal"));
    EXPECT_EQ(probe.State(), 'T');
  }
  EXPECT_THAT(TextOf(probe.pid()), HasSubstr("Outer stack_probe.cc"));
  probe.SignalAndWaitFor(SIGCONT, 'S');
  EXPECT_THAT(TextOf(probe.pid()), Not(HasSubstr("stopped by a signal")));
  EXPECT_EQ(probe.State(), 'S');
}

TEST_F(RunningStackTest, AThreadThatDoesNotStopIsLeftOutAndGoesOnLater) {
  const Probe probe({probe_, "disk_wait"});
  for (const auto until = In(10); probe.State() != 'D';) {
    ASSERT_LT(std::chrono::steady_clock::now(), until) << probe.State();
  }
  const auto start = std::chrono::steady_clock::now();
  const std::vector<pid_t> pids = {probe.pid()};
  const std::vector<CopiedProcess> copied = CopyStacks(pids, In(20));
  EXPECT_TRUE(absl::IsDeadlineExceeded(copied[0].threads[0].copied)) << copied[0].threads[0].copied;
  EXPECT_GE(std::chrono::steady_clock::now() - start, SeizeOptions().stop_wait);
  const std::string text = TextOf(probe.pid());
  EXPECT_THAT(text, HasSubstr("rank 3: main thread: D (disk wait), in "));
  EXPECT_THAT(text, HasSubstr("did not stop within 50 ms"));
  EXPECT_THAT(text, HasSubstr("1 vfork in disk wait\n"));
  // The process is released: when its wait ends, it continues.
  EXPECT_EQ(probe.State(), 'D');
  EXPECT_EQ(LookAtProcess(probe.pid())->traced_by, 0);
  const std::string id = std::to_string(probe.pid());
  const int child = std::atoi(ReadProc("/proc/" + id + "/task/" + id + "/children").c_str());
  ASSERT_GT(child, 0);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_THAT(TextOnce(probe.pid(),
                       [](const std::string& seen) { return seen.find("Inner") != seen.npos; }),
              HasSubstr("Inner stack_probe.cc"));
  EXPECT_EQ(probe.State(), 'S');
}

TEST_F(RunningStackTest, ASignalThatComesMeanwhileIsDelivered) {
  // The process ends by the signal in every case: no signal is lost, and no process hangs.
  for (int i = 0; i < 5; ++i) {
    const Probe probe({probe_, "busy"});
    std::thread sender([&] { probe.Signal(SIGTERM); });
    const StackTarget target{3, probe.pid()};
    TakeStacks({&target, 1}, In(20));
    sender.join();
    siginfo_t info = {};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(probe.pid()), &info, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(info.si_status, SIGTERM);
  }
}

TEST_F(RunningStackTest, OneThatIsStoppedMeanwhileIsStoppedAfterwards) {
  for (int i = 0; i < 5; ++i) {
    const Probe probe({probe_, "busy"});
    std::thread sender([&] { probe.Signal(SIGSTOP); });
    const StackTarget target{3, probe.pid()};
    TakeStacks({&target, 1}, In(20));
    sender.join();
    for (const auto until = In(10); probe.State() != 'T';) {
      ASSERT_LT(std::chrono::steady_clock::now(), until) << probe.State();
    }
  }
}

TEST_F(RunningStackTest, OneThatIsKilledMeanwhileIsAnErrorAndNoHang) {
  for (int i = 0; i < 5; ++i) {
    const Probe probe({probe_, "threads", "8"});
    std::thread killer([&] { probe.Signal(SIGKILL); });
    const StackTarget target{3, probe.pid()};
    const TakenStacks taken = TakeStacks({&target, 1}, In(20));
    killer.join();
    // Its parent, this test, still learns how it ended.
    siginfo_t info = {};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(probe.pid()), &info, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(info.si_status, SIGKILL);
    if (taken.missing > 0) {
      EXPECT_THAT(TextOf(taken), HasSubstr("it has ended"));
    }
  }
}

TEST_F(RunningStackTest, OneThatIsNotThereIsSaidToBeGone) {
  pid_t pid = 0;
  {
    const Probe probe({probe_, "chain"});
    pid = probe.pid();
    probe.SignalAndWaitFor(SIGKILL, 'Z');
    EXPECT_EQ(TextOf(pid), "rank 3: it has ended\n");
  }
  EXPECT_EQ(TextOf(pid), "rank 3: no such process\n");
}

TEST_F(RunningStackTest, OneThatIsTracedIsLeftToItsTracer) {
  const Probe probe({probe_, "chain"});
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, probe.pid(), 0, 0), 0);
  const std::string text = TextOf(probe.pid());
  EXPECT_THAT(text, HasSubstr("rank 3: traced by " + std::to_string(::getpid())));
  EXPECT_THAT(text, HasSubstr("rank 3: main thread: "));
}

TEST_F(RunningStackTest, WithoutPermissionItSaysWhichOneIsMissing) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const Probe probe({probe_, "chain"});
  const std::string text =
      InChild([] { ASSERT_EQ(::setuid(65534), 0); }, [&] { return TextOf(probe.pid()); });
  EXPECT_THAT(text, HasSubstr("rank 3: ddprun may not trace it: it runs as uid 0, ddprun as uid "
                              "65534 without CAP_SYS_PTRACE"));
  EXPECT_THAT(text, HasSubstr("rank 3: main thread: "));
}

TEST_F(RunningStackTest, OneThatIsNotDumpableSaysSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  // A copy of the program that this user may read.
  const TempDir folder;
  const std::string copy = folder.path() + "/stack_probe";
  std::filesystem::copy_file(probe_, copy);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const Probe probe({copy, "undumpable"}, [] {
    if (::setuid(65534) != 0) ::_exit(1);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  });
  const std::string text =
      InChild([] { ASSERT_EQ(::setuid(65534), 0); }, [&] { return TextOf(probe.pid()); });
  EXPECT_THAT(text, HasSubstr("it is not dumpable"));
  EXPECT_THAT(text, HasSubstr("CAP_SYS_PTRACE"));
}

TEST_F(RunningStackTest, AfterTheDeadlineNobodyIsHeld) {
  const Probe probe({probe_, "chain"});
  const std::vector<pid_t> pids = {probe.pid()};
  const auto copied = CopyStacks(pids, std::chrono::steady_clock::now());
  EXPECT_TRUE(absl::IsDeadlineExceeded(copied[0].status));
  EXPECT_EQ(copied[0].held.count(), 0);
}

// A thread of a process can hold mmap_lock while it waits for a file server. Then each reader of
// the list of mappings waits, too. Seen red when one thread copied all processes and was joined.
TEST_F(RunningStackTest, OneWhoseMemoryIsLockedIsGivenUpAndTheOthersAreCopied) {
  const Probe locked({probe_, "chain"});
  const Probe other({probe_, "chain"});
  std::promise<void> unlock;
  std::atomic<int> waiting{0};
  SeizeOptions options;
  options.patience = milliseconds(50);
  options.read_maps = [&, unlocked = unlock.get_future().share()](pid_t pid) {
    if (pid == locked.pid()) {
      ++waiting;
      unlocked.wait();
    }
    return ReadMaps(pid);
  };
  const std::vector<pid_t> pids = {locked.pid(), other.pid()};
  for (const char* const why : {"its memory is locked", "its memory is still locked"}) {
    const auto copied = CopyStacks(pids, In(20), options);
    EXPECT_TRUE(absl::IsDeadlineExceeded(copied[0].status)) << copied[0].status;
    EXPECT_THAT(copied[0].status.message(), HasSubstr(why));
    EXPECT_FALSE(copied[0].threads.empty()) << "they are seen from outside";
    EXPECT_TRUE(copied[1].status.ok()) << copied[1].status;
    EXPECT_TRUE(copied[1].threads[0].copied.ok());
    StackTree tree;
    AddProcess({7}, copied[0], Unwound(), &tree);
    EXPECT_THAT(ToText(tree, StackTextOptions()), HasSubstr(why)) << "the report names it";
  }
  EXPECT_EQ(waiting, 1) << "one thread is left behind, however often it is tried";
  unlock.set_value();
  absl::Status status = absl::UnknownError("not tried");
  for (const auto until = In(10); !status.ok() && std::chrono::steady_clock::now() < until;) {
    status = CopyStacks(pids, In(20), options)[0].status;
  }
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(RunningStackTest, AHelperThatTakesTooLongIsEnded) {
  const Probe probe({probe_, "chain"});
  const std::vector<pid_t> pids = {probe.pid()};
  HelperLimits limits;
  limits.time = milliseconds(0);
  const Unwound unwound = UnwindInHelper(CopyStacks(pids, In(20)), limits);
  EXPECT_TRUE(absl::IsDeadlineExceeded(unwound.status)) << unwound.status;
  StackTree tree;
  AddProcess({3}, CopyStacks(pids, In(20))[0], unwound, &tree);
  EXPECT_THAT(ToText(tree, {}), HasSubstr("not all stacks could be read within 0 ms"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), 0);  // no other child than the probe
}

TEST_F(RunningStackTest, TheFramesAreOneAfterAnotherFromTheStackPointerOn) {
#ifdef __x86_64__
  constexpr std::size_t kStackPointer = 7;
#else
  constexpr std::size_t kStackPointer = 31;
#endif
  const Probe probe({probe_, "chain"});
  const std::vector<pid_t> pids = {probe.pid()};
  const auto copied = CopyStacks(pids, In(20));
  const CopiedThread& thread = copied[0].threads[0];
  const Unwound unwound = UnwindInHelper(copied);
  ASSERT_TRUE(unwound.status.ok()) << unwound.status;
  const std::vector<std::uint64_t>& at = unwound.threads.at(probe.pid()).stack_pointers;
  ASSERT_EQ(at.size(), unwound.threads.at(probe.pid()).frames.size());
  EXPECT_EQ(at.front(), thread.registers[kStackPointer]);
  EXPECT_TRUE(std::is_sorted(at.begin(), at.end()));
  EXPECT_GT(at.back(), at.front());
  EXPECT_LE(at.back(), thread.stack_start + thread.stack.size());
}

TEST_F(RunningStackTest, OfADeepOneOnlyTheBytesAskedForAreCopied) {
  const Probe probe({probe_, "chain"});
  const std::vector<pid_t> pids = {probe.pid()};
  SeizeOptions options;
  options.stack_bytes = 200;
  const auto copied = CopyStacks(pids, In(20), options);
  ASSERT_EQ(copied[0].threads[0].stack.size(), 200u);
  EXPECT_FALSE(copied[0].threads[0].stack_is_whole);
  StackTree tree;
  AddProcess({3}, copied[0], UnwindInHelper(copied), &tree);
  EXPECT_THAT(ToText(tree, {}),
              HasSubstr("frames are missing in 1 of 1 threads: only 200 bytes of its stack"));
  options.total_bytes = 100;
  EXPECT_TRUE(absl::IsResourceExhausted(CopyStacks(pids, In(20), options)[0].threads[0].copied));
}

}  // namespace take_stacks_test
}  // namespace ddprun::stacks
