#include "launcher/os/signal_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace signal_source_test {

using test::RunUntil;
using ::testing::ElementsAre;
using ::testing::Pair;

struct Recorder {
  EventLoop loop;
  std::vector<std::pair<int, pid_t>> seen;
  SignalSource source{&loop, [this](int signo, pid_t sender) { seen.emplace_back(signo, sender); }};
};

class SignalSourceTest : public ::testing::TestWithParam<int> {};

TEST_P(SignalSourceTest, DeliversTheSignalAndItsSenderOnTheLoop) {
  Recorder recorder;
  ASSERT_EQ(::kill(::getpid(), GetParam()), 0);
  EXPECT_TRUE(recorder.seen.empty());  // only the loop delivers signals
  ASSERT_TRUE(RunUntil(&recorder.loop, [&] { return !recorder.seen.empty(); }));
  EXPECT_THAT(recorder.seen, ElementsAre(Pair(GetParam(), ::getpid())));
}

INSTANTIATE_TEST_SUITE_P(All, SignalSourceTest,
                         ::testing::Values(SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2));

TEST(SignalSourceMoreTest, LeavesSighupIgnoredUnderNohup) {
  ::signal(SIGHUP, SIG_IGN);
  {
    Recorder recorder;
    ASSERT_EQ(::kill(::getpid(), SIGHUP), 0);
    ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
    ASSERT_TRUE(RunUntil(&recorder.loop, [&] { return !recorder.seen.empty(); }));
    EXPECT_THAT(recorder.seen, ElementsAre(Pair(SIGUSR1, ::getpid())));
  }
  ::signal(SIGHUP, SIG_DFL);
}

TEST(SignalSourceMoreTest, ABrokenPipeIsAnErrorAndNotADeath) {
  const Recorder recorder;
  test::PipeEnds pipe = test::MakePipe();
  pipe.read_end.reset();
  EXPECT_EQ(::write(pipe.write_end.get(), "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST(SignalSourceMoreTest, SigtstpStopsTheProcessAfterTellingAndSigcontTellsAgain) {
  EventLoop loop;
  PosixProcessRunner runner;
  const auto process = runner.Spawn(test::Child({"suspend"}));
  ASSERT_TRUE(process.ok()) << process.status();
  std::string said;
  const auto says = [&](const std::string& text) {
    return RunUntil(&loop, [&] {
      test::ReadAvailable(process->stdout_pipe.get(), &said);
      return said == text;
    });
  };
  ASSERT_TRUE(says("up\n"));
  for (const char* text : {"up\nstop\n", "up\nstop\ngo\nstop\n"}) {
    ::kill(process->pid, SIGTSTP);
    ASSERT_TRUE(says(text)) << said;
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, process->pid, &info, WSTOPPED), 0);
    EXPECT_EQ(info.si_status, SIGTSTP) << "what a shell with job control waits for";
    ::kill(process->pid, SIGCONT);
    ASSERT_TRUE(says(std::string(text) + "go\n")) << said;
  }
  ::kill(process->pid, SIGTERM);
  ASSERT_TRUE(test::RunUntilDead(&loop, process->pidfd.get()));
  EXPECT_EQ(*runner.Reap(process->pidfd.get()), ExitStatus());
}

TEST(SignalSourceMoreTest, PutsMaskAndDispositionBack) {
  { const Recorder recorder; }
  sigset_t mask;
  ::sigprocmask(SIG_BLOCK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGTERM));
  struct sigaction action;
  ::sigaction(SIGPIPE, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

}  // namespace signal_source_test
}  // namespace ddprun
