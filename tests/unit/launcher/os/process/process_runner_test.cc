#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "launcher/os/process/posix_process_runner.h"
#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace process_runner_test {

using test::Child;
using test::Finished;
using test::RunToEnd;
using test::RunUntil;
using test::RunUntilDead;
using test::Shell;
using test::SplitLines;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

UniqueFd OpenPidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// Runs the loop until a whole line has arrived, and returns it as a number.
pid_t ReadPid(EventLoop* loop, int fd) {
  std::string text;
  EXPECT_TRUE(RunUntil(loop, [&] {
    test::ReadAvailable(fd, &text);
    return text.find('\n') != std::string::npos;
  }));
  return std::stoi(text);
}

TEST(ProcessRunnerTest, ReportsTheExitCode) {
  for (const int code : {0, 1, 2, 126, 127, 128, 254, 255}) {
    const Finished finished = RunToEnd(Shell("exit " + std::to_string(code)));
    EXPECT_EQ(finished.status, (ExitStatus{code, 0, false}));
  }
}

TEST(ProcessRunnerTest, ReportsEveryFatalSignal) {
  for (const int signo : {SIGHUP,  SIGINT,    SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
                          SIGFPE,  SIGKILL,   SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM,
                          SIGTERM, SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ, SIGSYS,  SIGIO}) {
    const Finished finished =
        RunToEnd(Shell("ulimit -c 0; kill -" + std::to_string(signo) + " $$; exit 0"));
    EXPECT_EQ(finished.status, (ExitStatus{0, signo, false})) << SignalName(signo);
  }
}

TEST(ProcessRunnerTest, StdoutAndStderrAreApart) {
  const Finished finished = RunToEnd(Shell("echo out; echo err >&2"));
  EXPECT_EQ(finished.out, "out\n");
  EXPECT_EQ(finished.err, "err\n");
}

TEST(ProcessRunnerTest, TheEnvironmentIsTheRequestsAndNothingElse) {
  ASSERT_EQ(::setenv("DDPRUN_OS_TEST_LEAK", "1", 1), 0);
  SpawnRequest request{{"/usr/bin/env"}, {"RANK=3", "EMPTY=", "WITH=a=b c"}, ""};
  EXPECT_THAT(SplitLines(RunToEnd(request).out), ElementsAre("RANK=3", "EMPTY=", "WITH=a=b c"));
}

TEST(ProcessRunnerTest, StartsInTheGivenFolder) {
  const test::TempDir dir;
  SpawnRequest request = Shell("pwd -P");
  request.cwd = dir.path();
  EXPECT_EQ(RunToEnd(request).out, std::filesystem::canonical(dir.path()).string() + "\n");
}

TEST(ProcessRunnerTest, RunsOnTheGivenCpusAlone) {
  const auto cpus_of = [](std::vector<int> cpus) {
    SpawnRequest request = Shell("grep Cpus_allowed_list /proc/self/status");
    request.cpus = std::move(cpus);
    return RunToEnd(request).out;
  };
  const std::string own = cpus_of({});
  const int last = std::stoi(own.substr(own.find_last_of("\t,-") + 1));
  EXPECT_EQ(cpus_of({last}), "Cpus_allowed_list:\t" + std::to_string(last) + "\n");
  EXPECT_EQ(cpus_of({}), own) << "the parent's own are as before";
}

TEST(ProcessRunnerTest, ARelativeProgramIsMeantFromTheGivenFolder) {
  const test::TempDir dir;
  test::WriteFile(dir / "train", "#!/bin/sh\necho \"ran $0 $1\"\n", 0755);
  EXPECT_EQ(RunToEnd({{"./train", "x"}, {}, dir.path()}).out, "ran ./train x\n");
}

TEST(ProcessRunnerTest, LooksForTheProgramInTheWorkersPath) {
  const test::TempDir dir;
  std::filesystem::create_directory(dir / "first");
  std::filesystem::create_directory(dir / "second");
  std::filesystem::create_directory(dir / "third");
  test::WriteFile(dir / "first/tool", "#!/bin/sh\necho first\n", 0644);  // not executable: skipped
  test::WriteFile(dir / "second/tool", "#!/bin/sh\necho second\n", 0755);
  test::WriteFile(dir / "third/tool", "#!/bin/sh\necho third\n", 0755);
  // Relative and empty entries of PATH begin at the working directory of the worker.
  EXPECT_EQ(RunToEnd({{"tool"}, {"PATH=/nowhere:first:second:third"}, dir.path()}).out, "second\n");
  EXPECT_EQ(RunToEnd({{"tool"}, {"PATH=:/nowhere"}, dir / "third"}).out, "third\n");
}

TEST(ProcessRunnerTest, InheritsStandardDescriptorsAndNothingElse) {
  const UniqueFd leak(::open("/dev/null", O_RDONLY));  // not close-on-exec
  const UniqueFd high(::fcntl(leak.get(), F_DUPFD, 900));
  ASSERT_TRUE(high.valid());
  EXPECT_THAT(SplitLines(RunToEnd(Child({"fds"})).out), ElementsAre("0", "1", "2"));
}

TEST(ProcessRunnerTest, StdinIsDevNull) {
  EXPECT_EQ(RunToEnd(Shell("readlink /proc/$$/fd/0")).out, "/dev/null\n");
}

TEST(ProcessRunnerTest, WorksWhenTheAgentHasNoStandardDescriptors) {
  EXPECT_EQ(RunToEnd(Child({"closed-stdio"})).status, ExitStatus());
}

TEST(ProcessRunnerTest, HasNoBlockedAndNoIgnoredSignals) {
  sigset_t blocked;
  sigset_t previous;
  sigfillset(&blocked);
  ASSERT_EQ(::sigprocmask(SIG_SETMASK, &blocked, &previous), 0);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  const Finished finished = RunToEnd({{"/bin/grep", "Sig", "/proc/self/status"}, {}, ""});
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGHUP, SIG_DFL);
  sigset_t after;
  ASSERT_EQ(::sigprocmask(SIG_SETMASK, &previous, &after), 0);
  EXPECT_THAT(finished.out, HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(finished.out, HasSubstr("SigIgn:\t0000000000000000"));
  EXPECT_TRUE(sigismember(&after, SIGTERM)) << "Spawn() must put the agent's mask back";
}

TEST(ProcessRunnerTest, LeadsAProcessGroupOfItsOwn) {
  PosixProcessRunner runner;
  absl::StatusOr<SpawnedProcess> process = runner.Spawn(Shell("exec sleep 100000"));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(::getpgid(process->pid), process->pid);
  ASSERT_TRUE(runner.SignalGroup(process->pid, SIGKILL).ok());
  EventLoop loop;
  ASSERT_TRUE(RunUntilDead(&loop, process->pidfd.get()));
  EXPECT_TRUE(runner.Reap(process->pidfd.get()).ok());
}

TEST(ProcessRunnerTest, SignalGroupReachesGrandchildrenAlsoAfterTheWorkersDeath) {
  EventLoop loop;
  PosixProcessRunner runner;
  absl::StatusOr<SpawnedProcess> process = runner.Spawn(Shell("sleep 100000 & echo $!; exit 1"));
  ASSERT_TRUE(process.ok()) << process.status();
  const UniqueFd grandchild = OpenPidfd(ReadPid(&loop, process->stdout_pipe.get()));
  ASSERT_TRUE(grandchild.valid());
  ASSERT_TRUE(RunUntilDead(&loop, process->pidfd.get()));
  EXPECT_TRUE(runner.SignalGroup(process->pid, SIGKILL).ok());
  EXPECT_TRUE(RunUntilDead(&loop, grandchild.get()));
  EXPECT_EQ(*runner.Reap(process->pidfd.get()), (ExitStatus{1, 0, false}));
}

TEST(ProcessRunnerTest, TellsWhenTheProgramRuns) {
  PosixProcessRunner runner;
  absl::StatusOr<SpawnedProcess> process = runner.Spawn(Shell("exec sleep 100000"));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(test::AwaitOutcome(*process), absl::OkStatus());
  EXPECT_NE(std::filesystem::read_symlink("/proc/" + std::to_string(process->pid) + "/exe"),
            std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_TRUE(runner.Discard(*process).ok());
}

TEST(ProcessRunnerTest, WhoseExecHangsHoldsNobodyUpAndHearsSignals) {
  const test::TempDir folder;
  EventLoop loop;
  PosixProcessRunner runner;
  SpawnRequest request = Shell("exit 0");
  const std::string file = test::HangExec(folder, &request);
  absl::StatusOr<SpawnedProcess> hung = runner.Spawn(request);
  ASSERT_TRUE(hung.ok()) << hung.status();
  ASSERT_TRUE(RunUntil(&loop, [&] { return std::filesystem::exists(file + ".hangs"); }));
  EXPECT_EQ(RunToEnd(Shell("exit 3")).status, (ExitStatus{3, 0, false}));
  EXPECT_EQ(SpawnOutcome(hung->outcome_pipe.get()), std::nullopt);
  ASSERT_TRUE(runner.SignalGroup(hung->pid, SIGTERM).ok());
  ASSERT_TRUE(RunUntilDead(&loop, hung->pidfd.get()));
  EXPECT_EQ(test::AwaitOutcome(*hung), absl::OkStatus()) << "it was killed, and no exec failed";
  EXPECT_EQ(*runner.Reap(hung->pidfd.get()), (ExitStatus{0, SIGTERM, false}));
}

// The reason goes through a pipe, in one write of at most PIPE_BUF bytes.
TEST(ProcessRunnerTest, AReasonLongerThanAPageIsCut) {
  PosixProcessRunner runner;
  const absl::Status outcome =
      test::OutcomeOf(&runner, {{"trian"}, {"PATH=/" + std::string(100'000, 'x')}, ""});
  EXPECT_EQ(outcome.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(outcome.message()),
              testing::StartsWith("trian: command not found (PATH=/xxx"));
}

TEST(ProcessRunnerTest, SignalGroupRefusesNumbersThatMeanEverybody) {
  PosixProcessRunner runner;
  for (const pid_t pid : {-1, 0, 1}) {
    EXPECT_EQ(runner.SignalGroup(pid, 0).code(), absl::StatusCode::kInvalidArgument) << pid;
  }
}

TEST(ProcessRunnerTest, ReapDoesNotWait) {
  EventLoop loop;
  PosixProcessRunner runner;
  absl::StatusOr<SpawnedProcess> process = runner.Spawn(Shell("exec sleep 100000"));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(runner.Reap(process->pidfd.get()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(runner.SignalGroup(process->pid, SIGTERM).ok());
  ASSERT_TRUE(RunUntilDead(&loop, process->pidfd.get()));
  EXPECT_EQ(*runner.Reap(process->pidfd.get()), (ExitStatus{0, SIGTERM, false}));
  EXPECT_EQ(runner.SignalGroup(process->pid, SIGTERM).code(), absl::StatusCode::kNotFound);
}

TEST(ProcessRunnerTest, TheKernelKillsWorkersWhoseAgentWasKilled) {
  EventLoop loop;
  PosixProcessRunner runner;
  absl::StatusOr<SpawnedProcess> agent = runner.Spawn(Child({"spawner"}));
  ASSERT_TRUE(agent.ok()) << agent.status();
  const UniqueFd worker = OpenPidfd(ReadPid(&loop, agent->stdout_pipe.get()));
  ASSERT_TRUE(worker.valid());
  ASSERT_EQ(::kill(agent->pid, SIGKILL), 0);  // the agent alone, not its group
  EXPECT_TRUE(RunUntilDead(&loop, worker.get()));
  ASSERT_TRUE(RunUntilDead(&loop, agent->pidfd.get()));
  EXPECT_TRUE(runner.Reap(agent->pidfd.get()).ok());
}

TEST(ProcessRunnerTest, ExitStatusesSurviveAnIgnoredSigchld) {
  ::signal(SIGCHLD, SIG_IGN);
  const Finished finished = RunToEnd(Shell("exit 3"));
  EXPECT_EQ(finished.status, (ExitStatus{3, 0, false}));
}

TEST(ProcessRunnerTest, Spawns256ProcessesAndLeavesNothingBehind) {
  const auto count_fds = [] {
    const std::filesystem::directory_iterator fds("/proc/self/fd");
    return std::distance(begin(fds), end(fds));
  };
  const auto fds_before = count_fds();
  PosixProcessRunner runner;
  {
    std::vector<SpawnedProcess> processes;
    for (int i = 0; i < 256; ++i) {
      absl::StatusOr<SpawnedProcess> process = runner.Spawn({{"/bin/true"}, {}, ""});
      ASSERT_TRUE(process.ok()) << process.status();
      processes.push_back(*std::move(process));
    }
    EventLoop loop;
    for (const SpawnedProcess& process : processes) {
      ASSERT_TRUE(RunUntilDead(&loop, process.pidfd.get()));
      EXPECT_EQ(*runner.Reap(process.pidfd.get()), ExitStatus());
    }
  }
  EXPECT_EQ(count_fds(), fds_before);
}

}  // namespace process_runner_test
}  // namespace ddprun
