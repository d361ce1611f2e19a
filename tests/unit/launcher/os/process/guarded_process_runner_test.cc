#include "launcher/os/process/guarded_process_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace guarded_process_runner_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string Proc(pid_t pid, const char* file) {
  return test::ReadFile("/proc/" + std::to_string(pid) + "/" + file);
}

// The guardian: a child of this process with the name that the guardian gives itself at its start.
// Throws if there is none, because callers send signals to the result.
pid_t Guardian() {
  const std::string self = std::to_string(::getpid());
  std::istringstream children(Proc(::getpid(), ("task/" + self + "/children").c_str()));
  for (pid_t child = 0; children >> child;) {
    if (Proc(child, "comm") == "ddprun-guardian\n") return child;
  }
  throw std::runtime_error("no child of this process is called ddprun-guardian");
}

pid_t ParentOf(pid_t pid) {
  const std::string stat = Proc(pid, "stat");
  return std::stoi(stat.substr(stat.rfind(") ") + 4));  // the parent's pid follows the state
}

bool Exists(pid_t pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }
bool Exists(const std::string& path) { return std::filesystem::exists(path); }

class GuardedProcessRunnerTest : public ::testing::Test {
 protected:
  GuardedProcessRunnerTest() {
    auto runner = GuardedProcessRunner::Start({});
    EXPECT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
  }
  ~GuardedProcessRunnerTest() override {
    runner_.reset();
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);  // not for processes of other tests
  }

  SpawnedProcess Spawn(const std::string& script) {
    auto process = runner_->Spawn(test::Shell(script));
    EXPECT_TRUE(process.ok()) << process.status();
    return *std::move(process);
  }
  std::string ReadLine(int fd) {
    std::string text;
    EXPECT_TRUE(test::RunUntil(&loop_, [&] {
      test::ReadAvailable(fd, &text);
      return text.find('\n') != std::string::npos;
    }));
    return text.substr(0, text.find('\n'));
  }
  pid_t ReadPid(const SpawnedProcess& process) {
    return std::stoi(ReadLine(process.stdout_pipe.get()));
  }

  EventLoop loop_;
  std::unique_ptr<GuardedProcessRunner> runner_;
};

TEST_F(GuardedProcessRunnerTest, AWorkersOutputAndExitCodeArriveAndItsParentIsTheGuardian) {
  const SpawnedProcess worker = Spawn("echo $PPID; exit 7");
  EXPECT_EQ(ReadPid(worker), Guardian());
  ASSERT_TRUE(test::RunUntilDead(&loop_, worker.pidfd.get()));
  EXPECT_EQ(*runner_->Reap(worker.pidfd.get()), (ExitStatus{7, 0, false}));
  EXPECT_FALSE(Exists(worker.pid));
}

TEST_F(GuardedProcessRunnerTest, AZombieKeepsItsNumberUntilItIsReaped) {
  const SpawnedProcess worker = Spawn("exit 0");
  ASSERT_TRUE(test::RunUntilDead(&loop_, worker.pidfd.get()));
  EXPECT_THAT(*runner_->EndOrphans(seconds(1)), IsEmpty());  // the guardian looked at its children
  EXPECT_TRUE(Exists(worker.pid));
  EXPECT_TRUE(runner_->Reap(worker.pidfd.get()).ok());
  EXPECT_EQ(runner_->Reap(worker.pidfd.get()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GuardedProcessRunnerTest, WhatIsDiscardedIsGoneWithItsGroupWhenNoOrphanIsLeft) {
  const SpawnedProcess worker = Spawn("sleep 1000 & echo $!; exec sleep 1000");
  const pid_t child = ReadPid(worker);
  const SpawnedProcess other = Spawn("exec sleep 1000");
  EXPECT_TRUE(runner_->Discard(worker).ok());
  EXPECT_THAT(*runner_->EndOrphans(seconds(1)), IsEmpty());
  EXPECT_FALSE(Exists(worker.pid));
  EXPECT_FALSE(Exists(child));
  EXPECT_TRUE(Exists(other.pid));
  EXPECT_EQ(runner_->Reap(worker.pidfd.get()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GuardedProcessRunnerTest, ReapDoesNotWait) {
  const SpawnedProcess worker = Spawn("exec sleep 1000");
  EXPECT_EQ(runner_->Reap(worker.pidfd.get()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(GuardedProcessRunnerTest, ErrorsOfTheCommandComeBackAsTheyAre) {
  PosixProcessRunner plain;
  for (const SpawnRequest& request :
       {SpawnRequest{{"./trian"}, {}, ""}, SpawnRequest{{"/etc/passwd"}, {}, ""},
        SpawnRequest{{}, {}, ""}, SpawnRequest{{"/bin/true"}, {}, "/no/such/folder"}}) {
    const absl::Status outcome = test::OutcomeOf(runner_.get(), request);
    EXPECT_FALSE(outcome.ok());
    EXPECT_EQ(outcome, test::OutcomeOf(&plain, request));
  }
}

TEST_F(GuardedProcessRunnerTest, ALargeEnvironmentArrives) {
  SpawnRequest request = test::Shell("echo ${#A}${#B}${#C}");
  for (const char* name : {"A", "B", "C"}) {
    request.env.push_back(std::string(name) + "=" + std::string(100'000, 'x'));
  }
  const auto worker = runner_->Spawn(request);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(ReadLine(worker->stdout_pipe.get()), "100000100000100000");
}

TEST_F(GuardedProcessRunnerTest, TheGuardianHasANameOfItsOwnAndNothingOfAWorker) {
  // The script does not exec after its line: /proc shows no environment in the middle of an exec.
  SpawnRequest request = test::Shell("echo up; kill -STOP $$");
  request.env.push_back("OF_THE_WORKER=1");
  const auto worker = runner_->Spawn(request);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ReadLine(worker->stdout_pipe.get());
  EXPECT_THAT(Proc(worker->pid, "environ"), HasSubstr("OF_THE_WORKER"));
  const pid_t guardian = ParentOf(worker->pid);
  EXPECT_THAT(Proc(guardian, "environ"), Not(HasSubstr("OF_THE_WORKER")));
  EXPECT_EQ(Proc(guardian, "comm"), "ddprun-guardian\n");
  // The title is cut if the command line of this program is shorter.
  const std::string title = "ddprun-guardian of " + std::to_string(::getpid());
  const std::size_t room = Proc(::getpid(), "cmdline").size() - 1;
  EXPECT_THAT(Proc(guardian, "cmdline"), StartsWith(title.substr(0, room)));
}

TEST_F(GuardedProcessRunnerTest, NoSignalThatCanBeCaughtReachesTheGuardian) {
  EXPECT_THAT(*runner_->EndOrphans({}), IsEmpty());  // the guardian has started
  const pid_t guardian = Guardian();
  EXPECT_EQ(::getpgid(guardian), guardian);
  for (int signo = 1; signo < SIGRTMAX; ++signo) {
    if (signo == SIGKILL || signo == SIGSTOP) continue;
    if (signo >= __SIGRTMIN && signo < SIGRTMIN) continue;  // the C library uses them
    ::kill(guardian, signo);
  }
  EXPECT_THAT(*runner_->EndOrphans(seconds(1)), IsEmpty());
}

TEST_F(GuardedProcessRunnerTest, EndOrphansEndsDaemonsAndTouchesNoWorker) {
  const SpawnedProcess ended =
      Spawn("setsid sh -c 'setsid sleep 1000 & echo $!' < /dev/null; exit 0");
  const SpawnedProcess running = Spawn("sleep 1000 & echo $!; wait");
  const pid_t daemon = ReadPid(ended);
  const pid_t child_of_worker = ReadPid(running);
  ASSERT_TRUE(test::RunUntilDead(&loop_, ended.pidfd.get()));
  ASSERT_TRUE(Exists(daemon));
  EXPECT_THAT(*runner_->EndOrphans(seconds(10)), IsEmpty());
  EXPECT_FALSE(Exists(daemon));
  EXPECT_TRUE(Exists(running.pid));
  EXPECT_TRUE(Exists(child_of_worker));
  EXPECT_EQ(*runner_->Reap(ended.pidfd.get()), ExitStatus());
}

TEST_F(GuardedProcessRunnerTest, WhatDiesAsAnOrphanIsCollectedWithoutBeingAskedFor) {
  const SpawnedProcess worker = Spawn("sh -c 'sleep 0.02 & echo $!'; exec sleep 1000");
  const pid_t orphan = ReadPid(worker);
  EXPECT_TRUE(test::RunUntil(&loop_, [&] { return !Exists(orphan); }));
}

TEST_F(GuardedProcessRunnerTest, ItsEndIsTheEndOfEverything) {
  const SpawnedProcess worker = Spawn("setsid sleep 1000 & echo $!; exec sleep 1000");
  const pid_t daemon = ReadPid(worker);
  const pid_t guardian = Guardian();
  runner_.reset();
  for (const pid_t pid : {worker.pid, daemon, guardian}) EXPECT_FALSE(Exists(pid)) << pid;
}

TEST_F(GuardedProcessRunnerTest, WhenTheGuardianIsKilledEveryCallSaysSoAndNothingIsLeft) {
  const SpawnedProcess worker = Spawn("setsid sleep 1000 & echo $!; exec sleep 1000");
  const pid_t daemon = ReadPid(worker);
  const pid_t guardian = Guardian();
  ::kill(guardian, SIGKILL);
  ASSERT_TRUE(test::RunUntilDead(&loop_, runner_->guardian_pidfd()));
  const absl::Status lost = runner_->Reap(worker.pidfd.get()).status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(lost.message()),
      HasSubstr("the guardian (pid " + std::to_string(guardian) + ") was killed by SIGKILL"));
  EXPECT_FALSE(Exists(worker.pid));
  EXPECT_FALSE(Exists(daemon));
  EXPECT_EQ(runner_->Spawn(test::Shell("exit 0")).status(), lost);
  EXPECT_EQ(runner_->EndOrphans({}).status(), lost);
  EXPECT_EQ(runner_->Lost(), lost);
}

TEST_F(GuardedProcessRunnerTest, AWorkerWhoseOutputCannotBeTakenIsEndedAndTheReasonIsSaid) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next) + 1, before.rlim_max};  // one descriptor is left
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto worker = runner_->Spawn(test::Shell("exec sleep 1000"));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(worker.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(worker.status().message()), HasSubstr("ulimit -n"));
  EXPECT_THAT(*runner_->EndOrphans(seconds(10)), IsEmpty());
  const pid_t guardian = Guardian();
  EXPECT_EQ(Proc(guardian, ("task/" + std::to_string(guardian) + "/children").c_str()), "");
}

TEST_F(GuardedProcessRunnerTest, AStoppedWorkerHearsSigterm) {
  const SpawnedProcess worker = Spawn("trap 'exit 5' TERM; echo $$; while :; do read x; done");
  ReadPid(worker);
  ASSERT_TRUE(runner_->SignalGroup(worker.pid, SIGSTOP).ok());
  ASSERT_TRUE(runner_->SignalGroup(worker.pid, SIGTERM).ok());
  ASSERT_TRUE(test::RunUntilDead(&loop_, worker.pidfd.get()));
  EXPECT_EQ(*runner_->Reap(worker.pidfd.get()), (ExitStatus{5, 0, false}));
}

// ---- an exec that hangs ----

// Seen red when the guardian waited for the end of the exec before it answered.
TEST_F(GuardedProcessRunnerTest, AnExecThatHangsHoldsNobodyUp) {
  const test::TempDir folder;
  SpawnRequest request = test::Shell("exit 3");
  const std::string file = test::HangExec(folder, &request);
  const auto hung = runner_->Spawn(request);
  ASSERT_TRUE(hung.ok()) << hung.status();
  ASSERT_TRUE(test::RunUntil(&loop_, [&] { return Exists(file + ".hangs"); }));
  const SpawnedProcess other = Spawn("exit 5");
  EXPECT_EQ(test::AwaitOutcome(other), absl::OkStatus());
  ASSERT_TRUE(test::RunUntilDead(&loop_, other.pidfd.get()));
  EXPECT_EQ(*runner_->Reap(other.pidfd.get()), (ExitStatus{5, 0, false}));
  EXPECT_EQ(SpawnOutcome(hung->outcome_pipe.get()), std::nullopt);
  std::filesystem::remove(file);
  EXPECT_EQ(test::AwaitOutcome(*hung), absl::OkStatus());
  ASSERT_TRUE(test::RunUntilDead(&loop_, hung->pidfd.get()));
  EXPECT_EQ(*runner_->Reap(hung->pidfd.get()), (ExitStatus{3, 0, false}));
}

TEST_F(GuardedProcessRunnerTest, WhoseExecHangsCanBeDiscarded) {
  const test::TempDir folder;
  SpawnRequest request = test::Shell("exit 3");
  const std::string file = test::HangExec(folder, &request);
  const auto hung = runner_->Spawn(request);
  ASSERT_TRUE(hung.ok()) << hung.status();
  ASSERT_TRUE(test::RunUntil(&loop_, [&] { return Exists(file + ".hangs"); }));
  EXPECT_TRUE(runner_->Discard(*hung).ok());
  EXPECT_THAT(*runner_->EndOrphans(seconds(10)), IsEmpty());
  EXPECT_FALSE(Exists(hung->pid));
}

TEST_F(GuardedProcessRunnerTest, TheFenceIsKeptWhileAnExecHangs) {
  const test::TempDir folder;
  const SpawnedProcess running = Spawn("exec sleep 1000");
  SpawnRequest request = test::Shell("exit 3");
  const std::string file = test::HangExec(folder, &request);
  const auto hung = runner_->Spawn(request);
  ASSERT_TRUE(hung.ok()) << hung.status();
  ASSERT_TRUE(test::RunUntil(&loop_, [&] { return Exists(file + ".hangs"); }));
  runner_->SetFence(EventLoop::Clock::now());
  for (const int pidfd : {running.pidfd.get(), hung->pidfd.get()}) {
    ASSERT_TRUE(test::RunUntilDead(&loop_, pidfd));
    EXPECT_EQ(*runner_->Reap(pidfd), (ExitStatus{0, SIGKILL, false}));
  }
  EXPECT_EQ(test::AwaitOutcome(*hung), absl::OkStatus()) << "it was killed, and no exec failed";
}

// ---- the fence ----

TEST_F(GuardedProcessRunnerTest, AFenceThatIsPushedForwardOrTakenAwayEndsNobody) {
  const SpawnedProcess worker = Spawn("exec sleep 1000");
  const auto now = EventLoop::Clock::now();
  runner_->SetFence(now + milliseconds(50));
  runner_->SetFence(now + seconds(1000));
  bool later = false;
  loop_.AddTimer(now + milliseconds(150), [&] { later = true; });
  ASSERT_TRUE(test::RunUntil(&loop_, [&] { return later; }));
  runner_->SetFence(EventLoop::Clock::now() + milliseconds(1));
  runner_->SetFence(std::nullopt);
  EXPECT_THAT(*runner_->EndOrphans({}), IsEmpty());  // the guardian has looked
  EXPECT_EQ(runner_->Reap(worker.pidfd.get()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(GuardedProcessRunnerTest, AtTheFenceWorkersAndTheirDaemonsAreKilledAndLeftToBeReaped) {
  const SpawnedProcess worker = Spawn("setsid sleep 1000 & echo $!; exec sleep 1000");
  const pid_t daemon = ReadPid(worker);
  const SpawnedProcess other = Spawn("trap '' TERM; echo up; while :; do read x; done");
  ReadLine(other.stdout_pipe.get());
  runner_->SetFence(EventLoop::Clock::now());
  ASSERT_TRUE(test::RunUntilDead(&loop_, worker.pidfd.get()));
  ASSERT_TRUE(test::RunUntilDead(&loop_, other.pidfd.get()));
  EXPECT_TRUE(test::RunUntil(&loop_, [&] { return !Exists(daemon); }));
  EXPECT_EQ(*runner_->Reap(worker.pidfd.get()), (ExitStatus{0, SIGKILL, false}));
  EXPECT_EQ(*runner_->Reap(other.pidfd.get()), (ExitStatus{0, SIGKILL, false}));
}

// Seen red without `fenced_` in the guardian.
TEST_F(GuardedProcessRunnerTest, BehindTheFenceNothingStartsUntilItIsMoved) {
  const SpawnedProcess first = Spawn("exec sleep 1000");
  runner_->SetFence(EventLoop::Clock::now());
  ASSERT_TRUE(test::RunUntilDead(&loop_, first.pidfd.get()));
  const auto late = runner_->Spawn(test::Shell("exec sleep 1000"));
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  runner_->SetFence(EventLoop::Clock::now() + seconds(1000));
  const SpawnedProcess next = Spawn("exit 3");
  ASSERT_TRUE(test::RunUntilDead(&loop_, next.pidfd.get()));
  EXPECT_EQ(*runner_->Reap(next.pidfd.get()), (ExitStatus{3, 0, false}));
}

// Seen red when the guardian did not watch its timer.
TEST_F(GuardedProcessRunnerTest, TheWorkersOfAStoppedAgentAreKilledAtItsFence) {
  // os_test_child is the agent. It sets the fence to 1 s from then, and stops itself.
  const auto begin = EventLoop::Clock::now();  // the fence is set later than this
  const auto agent = runner_->Spawn(test::Child({"fenced", "1000"}));
  ASSERT_TRUE(agent.ok()) << agent.status();
  const std::string pids = ReadLine(agent->stdout_pipe.get());
  const pid_t worker = std::stoi(pids);
  const pid_t daemon = std::stoi(pids.substr(pids.find(' ')));
  const auto state = [](pid_t pid) {
    const std::string stat = Proc(pid, "stat");
    return stat.empty() ? '-' : stat[stat.rfind(") ") + 2];
  };
  ASSERT_TRUE(test::RunUntil(&loop_, [&] { return state(agent->pid) == 'T'; }));
  EXPECT_NE(state(worker), 'Z') << "the fence is not reached yet";
  ASSERT_TRUE(test::RunUntil(&loop_, [&] { return state(worker) == 'Z' && !Exists(daemon); }));
  const auto took = EventLoop::Clock::now() - begin;
  EXPECT_GE(took, milliseconds(1000));
  EXPECT_LE(took, milliseconds(2500)) << "the fence is at 1 s, after the start of two processes";
  EXPECT_EQ(state(agent->pid), 'T') << "the agent itself is left alone";
  ASSERT_EQ(::kill(agent->pid, SIGCONT), 0);
  EXPECT_EQ(ReadLine(agent->stdout_pipe.get()), "SIGKILL");
}

TEST_F(GuardedProcessRunnerTest, AKilledAgentsWorkersAreEndedAndItsLastDutiesAreDone) {
  // os_test_child is the agent here. The guardian of runner_ ends whatever the agent leaves behind.
  const test::TempDir folder;
  SpawnRequest request = test::Child({"agent", folder / "done"});
  const auto agent = runner_->Spawn(request);
  ASSERT_TRUE(agent.ok()) << agent.status();
  const pid_t worker = ReadPid(*agent);
  ASSERT_TRUE(Exists(worker));
  ::kill(agent->pid, SIGKILL);
  EXPECT_TRUE(test::RunUntil(&loop_, [&] { return !test::ReadFile(folder / "done").empty(); }));
  EXPECT_EQ(test::ReadFile(folder / "done"), "left: 0");
  EXPECT_FALSE(Exists(worker));
}

// ---- adopted processes ----

// The script of `server`: it leaves a process in its own group to the guardian.
constexpr char kLeavesOne[] = "(setsid sh -c 'echo $$; exec sleep 1000' &) ; sleep 1000";

TEST_F(GuardedProcessRunnerTest, AnAdoptedProcessIsAWorkerWithoutPipes) {
  const SpawnedProcess server = Spawn(kLeavesOne);
  const pid_t pid = ReadPid(server);
  const auto adopted = runner_->Adopt(pid);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(adopted->pid, pid);
  EXPECT_FALSE(adopted->stdout_pipe.valid());
  EXPECT_FALSE(adopted->outcome_pipe.valid());
  // Break: leave the process out of the guardian's workers. Then EndOrphans() kills it.
  EXPECT_THAT(*runner_->EndOrphans(seconds(1)), IsEmpty());
  EXPECT_TRUE(Exists(pid));
  EXPECT_TRUE(runner_->SignalGroup(pid, SIGTERM).ok());
  ASSERT_TRUE(test::RunUntilDead(&loop_, adopted->pidfd.get()));
  EXPECT_TRUE(Exists(pid)) << "a zombie keeps its number";
  EXPECT_EQ(*runner_->Reap(adopted->pidfd.get()), (ExitStatus{0, SIGTERM, false}));
  EXPECT_FALSE(Exists(pid));
}

TEST_F(GuardedProcessRunnerTest, AnAdoptedProcessOutlivesTheOneThatHasForkedIt) {
  const SpawnedProcess server = Spawn(kLeavesOne);
  const auto adopted = runner_->Adopt(ReadPid(server));
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_TRUE(runner_->Discard(server).ok());
  ASSERT_TRUE(test::RunUntilDead(&loop_, server.pidfd.get()));
  EXPECT_TRUE(Exists(adopted->pid));
  EXPECT_TRUE(runner_->Discard(*adopted).ok());
  ASSERT_TRUE(test::RunUntilDead(&loop_, adopted->pidfd.get()));
}

TEST_F(GuardedProcessRunnerTest, OnlyAChildOfTheGuardianThatIsNoWorkerYetIsAdopted) {
  const SpawnedProcess server = Spawn(kLeavesOne);
  const pid_t pid = ReadPid(server);
  for (const pid_t other : {pid_t{0}, pid_t{1}, ::getpid(), server.pid}) {
    EXPECT_EQ(runner_->Adopt(other).status().code(), absl::StatusCode::kNotFound) << other;
  }
  ASSERT_TRUE(runner_->Adopt(pid).ok());
  EXPECT_EQ(runner_->Adopt(pid).status().code(), absl::StatusCode::kNotFound) << "twice";
}

TEST_F(GuardedProcessRunnerTest, AfterTheFenceNothingIsAdopted) {
  const SpawnedProcess server = Spawn(kLeavesOne);
  const pid_t pid = ReadPid(server);
  runner_->SetFence(std::chrono::steady_clock::now());
  ASSERT_TRUE(test::RunUntilDead(&loop_, server.pidfd.get()));
  EXPECT_FALSE(runner_->Adopt(pid).ok());
  EXPECT_THAT(*runner_->EndOrphans(seconds(1)), IsEmpty());
  EXPECT_FALSE(Exists(pid)) << "it was a stray";
}

}  // namespace guarded_process_runner_test
}  // namespace ddprun
