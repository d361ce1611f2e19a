// If ddprun may not trace a process, the process writes its own stacks. Here a child of the test
// stands for ddprun: a seccomp filter refuses its ptrace calls.
#include "launcher/stacks/own_stacks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/stacks/process_facts.h"
#include "launcher/stacks/take_stacks.h"
#include "rendezvous/stacks/stack_text.h"
#include "tests/support/seccomp.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/launcher/stacks/probe.h"
#include "worker/contract/own_stacks.h"

namespace ddprun::stacks {
namespace own_stacks_test {

using stacks_test::InChild;
using stacks_test::Probe;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::chrono::steady_clock::time_point In(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

// The stacks of `pid` that a ddprun shows that may not trace it.
std::string TextOf(pid_t pid, unsigned error = EPERM, bool refuse_ptrace = true) {
  return InChild([&] { ASSERT_TRUE(RefuseTracing(error, refuse_ptrace)); },
                 [pid] {
                   StackTextOptions options;
                   options.most_in_line = 0;
                   const StackTarget target{3, pid};
                   return ToText(TakeStacks({&target, 1}, In(20)).tree, options);
                 });
}

// Takes the stacks until they contain `expected`, for at most 10 s: a process that has printed
// "ready" may not wait yet.
std::string TextOnce(pid_t pid, const std::string& expected) {
  std::string text = TextOf(pid);
  for (const auto until = In(10);
       text.find(expected) == std::string::npos && std::chrono::steady_clock::now() < until;) {
    text = TextOf(pid);
  }
  return text;
}

constexpr char kFiltered[] =
    "rank 3: ddprun may not trace it: ddprun's seccomp filter may forbid tracing "
    "(containers: allow ptrace and process_vm_readv in the seccomp profile)";
const std::string kOnlyFromOutside = std::string(kFiltered) + "\n";

TEST(PythonDumpTest, ReadsWhatFaulthandlerWrites) {
  const PythonDump dump = ParsePythonDump(
      "Thread 0x00007f4e7d33d6c0 (most recent call first):\n"
      "  File \"/lib/threading.py\", line 992 in run\n"
      "  File \"/lib/threading.py\", line ??? in _bootstrap\n"
      "\n"
      "Thread 0x00007f4e7d33d6c1 (most recent call first):\n"
      "  <no Python frame>\n"
      "\n"
      "Current thread 0x00007f4e7debcb80 (most recent call first):\n"
      "  Garbage-collecting\n"
      "  File \"/a \", line 3 in x/\", line 9 in read_the_shard\n"
      "  File \"train.py\", line 12 in <module>\n"
      "  ...\n");
  ASSERT_EQ(dump.current.size(), 2u);
  EXPECT_EQ(dump.current[0].frame,
            (StackFrame{"read_the_shard", "/a \", line 3 in x/", 9, "python"}));
  EXPECT_EQ(dump.current[1].frame, (StackFrame{"<module>", "train.py", 12, "python"}));
  ASSERT_EQ(dump.others.size(), 1u);
  EXPECT_EQ(dump.others[0][1].frame, (StackFrame{"_bootstrap", "/lib/threading.py", 0, "python"}));
}

TEST(PythonDumpTest, WhatIsNoneOfItsLinesIsSkipped) {
  const std::string text =
      "  File \"a.py\", line 1 in f\n"  // before any thread
      "Current thread 0x1 (most recent call first):\n"
      "  File \"a.py\", line 1 in f\n"
      "  File \"\", line 1 in f\n  File \"a.py\", line 1 in \n  File \"a.py\", line 1\n  File \"\n";
  EXPECT_EQ(ParsePythonDump(text).current.size(), 1u);
  for (std::size_t size = 0; size < text.size(); ++size) {
    ParsePythonDump(text.substr(0, size));
    ParsePythonDump(text.substr(size));
  }
}

// ---- processes that write nothing: they get no signal ----

TEST(OwnStacksTest, WithoutAHandlerItSaysWhichPermissionIsMissing) {
  const Probe probe({STACK_PROBE, "chain"});
  const std::string text = TextOnce(probe.pid(), "in pause");
  EXPECT_THAT(text, HasSubstr(kOnlyFromOutside));
  EXPECT_THAT(text, HasSubstr("rank 3: main thread: S (waiting), in pause"));
  EXPECT_THAT(text, Not(HasSubstr("Inner")));
  EXPECT_EQ(probe.State(), 'S');
}

// Seen red without the check for the memfd: the probe exits with 3.
TEST(OwnStacksTest, AProgramThatUsesTheSignalForItselfGetsNone) {
  const Probe probe({STACK_PROBE, "catches"});
  EXPECT_THAT(TextOf(probe.pid()), HasSubstr(kOnlyFromOutside));
  EXPECT_EQ(probe.State(), 'S');
}

// Seen red without the check of SigCgt: the signal kills the probe.
TEST(OwnStacksTest, AProgramThatDoesNotCatchTheSignalGetsNone) {
  const int inherited = ::memfd_create(kStacksFile, 0);
  const Probe probe({STACK_PROBE, "chain"});
  ::close(inherited);
  EXPECT_THAT(TextOf(probe.pid()), HasSubstr(kOnlyFromOutside));
  EXPECT_EQ(probe.State(), 'S');
}

// A worker may write anything into the file for its stacks.
TEST(OwnStacksTest, WhatIsWrittenIsNotTrusted) {
  static int file;
  file = ::memfd_create(kStacksFile, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* info, void*) {
      static int calls = 0;
      StackRecord record = {};
      record.request = reinterpret_cast<std::uintptr_t>(info->si_value.sival_ptr);
      record.register_count = calls == 0 ? 17 : UINT64_MAX;
      record.stack_start = calls == 1 ? reinterpret_cast<std::uintptr_t>(&record) : UINT64_MAX;
      record.stack_bytes = calls++ == 2 ? UINT64_MAX : 8;
      const std::size_t at = SlotOfRequest(record.request) * kStackSlotBytes;
      for (const std::size_t to : {at + kStackRecordBytes, at}) {
        [[maybe_unused]] const ssize_t size =
            ::pwrite(file, &record, sizeof(record), static_cast<off_t>(to));
      }
    };
    ::sigaction(kStackSignal, &action, nullptr);
    while (true) ::pause();
  }
  for (const auto until = In(10); (LookAtSignals(child, child)->caught >> 60 & 1) == 0;) {
    ASSERT_LT(std::chrono::steady_clock::now(), until);
  }
  for (int i = 0; i < 4; ++i) EXPECT_THAT(TextOf(child), HasSubstr(kOnlyFromOutside));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(file);
}

// ---- the handler of the C++ library ----

#ifdef OWN_STACKS_PROBE

constexpr char kThemselves[] = ". Its threads have written their stacks themselves\n";

TEST(OwnStacksTest, AProgramOfTheLibraryIsShownWithItsFunctionsAndLines) {
  const Probe probe({OWN_STACKS_PROBE, "chain"});
  for (int i = 0; i < 2; ++i) {
    const std::string text = TextOf(probe.pid());
    EXPECT_THAT(text, HasSubstr(std::string(kFiltered) + kThemselves));
    EXPECT_THAT(text, ContainsRegex("1 main stack_probe.cc:[0-9]+ → Outer stack_probe.cc:[0-9]+ → "
                                    "Middle stack_probe.cc:[0-9]+ → Inner stack_probe.cc:[0-9]+"));
    EXPECT_THAT(text, Not(HasSubstr("frames are missing")));
  }
  EXPECT_EQ(probe.State(), 'S');
}

TEST(OwnStacksTest, HoweverTheFilterRefuses) {
  const Probe probe({OWN_STACKS_PROBE, "threads", "3"});
  EXPECT_THAT(TextOf(probe.pid(), ENOSYS), HasSubstr(kThemselves));
  // ptrace works here, but process_vm_readv does not. ddprun must let the process run again, so
  // that it can write.
  EXPECT_THAT(TextOf(probe.pid(), EPERM, false), HasSubstr(kThemselves));
  EXPECT_THAT(TextOf(probe.pid(), ENOSYS, false), HasSubstr(kThemselves));
  EXPECT_EQ(probe.State(), 'S');
}

TEST(OwnStacksTest, OneThatMayBeTracedGetsNoSignal) {
  const Probe probe({OWN_STACKS_PROBE, "chain"});
  const StackTarget target{3, probe.pid()};
  const std::string text = ToText(TakeStacks({&target, 1}, In(20)).tree, {});
  EXPECT_THAT(text, Not(HasSubstr("themselves")));
  EXPECT_THAT(text, HasSubstr("Inner"));
}

// There are more threads than slots, so ddprun asks them in turns.
TEST(OwnStacksTest, AllThreads) {
  constexpr int kThreads = kStackSlots + 6;
  const Probe probe({OWN_STACKS_PROBE, "threads", std::to_string(kThreads)});
  // A thread that has not begun to run blocks all signals.
  for (const pid_t tid : ThreadsOf(probe.pid(), 1000)) {
    for (const auto until = In(10); LookAtSignals(probe.pid(), tid)->blocked != 0;) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
    }
  }
  const std::string count =
      InChild([] { ASSERT_TRUE(RefuseTracing()); },
              [&] {
                std::size_t budget = std::size_t{64} << 20;
                CopiedProcess process;
                process.pid = probe.pid();
                process.maps = ReadMaps(probe.pid());
                process.status = absl::PermissionDeniedError("no");
                for (const pid_t tid : ThreadsOf(probe.pid(), 1000)) {
                  process.threads.emplace_back().tid = tid;
                  process.threads.back().copied = process.status;
                }
                CollectOwnStacks(&process, &budget, In(20));
                return std::to_string(std::count_if(
                    process.threads.begin(), process.threads.end(), [](const CopiedThread& thread) {
                      return thread.copied.ok() && !thread.stack.empty() && thread.stack_is_whole;
                    }));
              });
  EXPECT_EQ(count, std::to_string(kThreads + 1));
  EXPECT_THAT(TextOnce(probe.pid(), "InThread"),
              ContainsRegex("other threads:\n1 .*InThread stack_probe.cc:[0-9]+"));
}

TEST(OwnStacksTest, AThreadThatNeverWaits) {
  const Probe probe({OWN_STACKS_PROBE, "busy"});
  // The thread may still be in Ready(), which prints "ready".
  EXPECT_THAT(TextOf(probe.pid()),
              ContainsRegex("1 main .* → Spin stack_probe.cc:[0-9]+( → Ready .*)?\n"));
  EXPECT_EQ(probe.State(), 'R');
}

TEST(OwnStacksTest, AThreadThatBlocksTheSignalIsLeftOut) {
  const Probe probe({OWN_STACKS_PROBE, "deaf"});
  EXPECT_THAT(TextOf(probe.pid()), HasSubstr(kOnlyFromOutside));
  EXPECT_EQ(LookAtSignals(probe.pid(), probe.pid())->pending, 0u);
}

// Seen red without the check of the state: the handlers ran when the process continued.
TEST(OwnStacksTest, OneThatIsStoppedGetsNoSignal) {
  const Probe probe({OWN_STACKS_PROBE, "chain"});
  probe.SignalAndWaitFor(SIGSTOP, 'T');
  const std::string text = TextOf(probe.pid());
  EXPECT_THAT(text, HasSubstr("rank 3: stopped by a signal"));
  EXPECT_THAT(text, HasSubstr(kOnlyFromOutside));
  EXPECT_EQ(LookAtSignals(probe.pid(), probe.pid())->pending, 0u);
  probe.SignalAndWaitFor(SIGCONT, 'S');
  EXPECT_THAT(TextOf(probe.pid()), HasSubstr("Inner"));
}

TEST(OwnStacksTest, AThreadInDiskWaitIsLeftOutAndAnswersLater) {
  const Probe probe({OWN_STACKS_PROBE, "disk_wait"});
  for (const auto until = In(10); probe.State() != 'D';) {
    ASSERT_LT(std::chrono::steady_clock::now(), until) << probe.State();
  }
  for (int i = 0; i < 2; ++i) {
    const std::string text = TextOf(probe.pid());
    EXPECT_THAT(text, HasSubstr(kOnlyFromOutside));
    EXPECT_THAT(text, HasSubstr("rank 3: main thread: D (disk wait), in "));
  }
  const std::string id = std::to_string(probe.pid());
  const int child = std::atoi(ReadProc("/proc/" + id + "/task/" + id + "/children").c_str());
  ASSERT_GT(child, 0);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_THAT(TextOnce(probe.pid(), "Inner"), HasSubstr("Inner stack_probe.cc"));
  EXPECT_EQ(LookAtSignals(probe.pid(), probe.pid())->pending, 0u);
}

// A reader holds a lock. Other readers wait for the lock, and read after it.
TEST(OwnStacksTest, SeveralReadersAtOnceAllSeeIt) {
  const Probe probe({OWN_STACKS_PROBE, "threads", "4"});
  const std::string texts = InChild([] { ASSERT_TRUE(RefuseTracing()); },
                                    [&] {
                                      std::string all;
                                      std::vector<std::string> seen(4);
                                      std::vector<std::thread> readers;
                                      for (std::string& text : seen) {
                                        readers.emplace_back([&] {
                                          const StackTarget target{3, probe.pid()};
                                          text = ToText(TakeStacks({&target, 1}, In(20)).tree, {});
                                        });
                                      }
                                      for (std::thread& reader : readers) reader.join();
                                      for (const std::string& text : seen)
                                        all += text.find("Inner") != text.npos ? "+" : text;
                                      return all;
                                    });
  EXPECT_EQ(texts, "++++");
}

#endif  // OWN_STACKS_PROBE

// ---- Python ----

class OwnPythonStacksTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::access(kPython, X_OK) != 0) GTEST_SKIP() << "no " << kPython;
    std::filesystem::create_directories(folder_ / "site");
    std::filesystem::copy(SITECUSTOMIZE, folder_ / "site/sitecustomize.py");
  }

  // Starts a Python worker as ddprun does.
  Probe Start(const std::string& script) {
    return Probe({kPython, "-c", script},
                 [&] { ::setenv("PYTHONPATH", (folder_ / "site").c_str(), 1); });
  }

  static constexpr char kPython[] = "/usr/bin/python3";
  TempDir folder_;
};

constexpr char kScript[] =
    "import sys, threading, time\n"
    "def read_the_shard(index):\n"
    "    print('ready', flush=True)\n"
    "    time.sleep(1000)\n"
    "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
    "read_the_shard(1)\n";

TEST_F(OwnPythonStacksTest, ItsPythonFramesAreShown) {
  const Probe probe = Start(kScript);
  const std::string text = TextOnce(probe.pid(), "<string>:4");
  EXPECT_THAT(text, HasSubstr(std::string(kFiltered) +
                              ". Its Python frames are from faulthandler; native frames are "
                              "missing\n"));
  EXPECT_THAT(text,
              ContainsRegex("1 <module> <string>:6 → read_the_shard <string>:4 → [^→]*sleep"));
  EXPECT_THAT(text, ContainsRegex("other threads:\n1 [^\n]*run [^\n]*threading.py:[0-9]+"));
  EXPECT_THAT(text, Not(HasSubstr("frames are missing in")));
  EXPECT_THAT(TextOf(probe.pid()), HasSubstr("read_the_shard <string>:4")) << "and again";
  EXPECT_EQ(probe.State(), 'S');
}

// Seen red where only the first part of the dump was read: the frames of the main thread come last.
TEST_F(OwnPythonStacksTest, ALongDumpIsReadToItsEnd) {
  const Probe probe = Start(
      "import threading, time\n"
      "def deep(n):\n"
      "    if n: deep(n - 1)\n"
      "    else: time.sleep(1000)\n"
      "for _ in range(60):\n"
      "    threading.Thread(target=deep, args=(80,), daemon=True).start()\n"
      "def in_main():\n"
      "    print('ready', flush=True)\n"
      "    while True: pass\n"
      "in_main()\n");
  EXPECT_THAT(TextOf(probe.pid()), HasSubstr("<module> <string>:10 → in_main <string>:9"));
}

// The script removes faulthandler's handler, and closes the file that marks the signal as ddprun's.
TEST_F(OwnPythonStacksTest, AScriptThatTakesTheSignalForItselfIsLeftAlone) {
  const Probe probe = Start(
      "import faulthandler, os, signal, sys\n"
      "faulthandler.unregister(61)\n"
      "os.close(sys._ddprun_stacks)\n"
      "signal.signal(61, lambda *_: os._exit(3))\n"
      "print('ready', flush=True)\n"
      "while True: signal.pause()\n");
  EXPECT_THAT(TextOf(probe.pid()), HasSubstr(kOnlyFromOutside));
  EXPECT_EQ(probe.State(), 'S');
}

}  // namespace own_stacks_test
}  // namespace ddprun::stacks
