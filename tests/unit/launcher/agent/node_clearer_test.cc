// Processes that SIGKILL does not end are named, and their end is reported. Children of the test
// stand for such processes: the runner of the test does not kill them.
#include "launcher/agent/node_clearer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/ready_process.h"

namespace ddprun {
namespace node_clearer_test {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

// Records the calls, and ends no process.
class IdleRunner final : public ProcessRunner {
 public:
  absl::StatusOr<SpawnedProcess> Spawn(const SpawnRequest&) override { return lost_; }
  absl::StatusOr<SpawnedProcess> Adopt(pid_t) override { return lost_; }
  absl::Status SignalGroup(pid_t pid, int) override {
    signalled_.push_back(pid);
    return absl::OkStatus();
  }
  absl::StatusOr<ExitStatus> Reap(int) override {
    ++reaped_;
    if (!lost_.ok()) return lost_;
    return ExitStatus{};
  }
  absl::Status Discard(const SpawnedProcess&) override { return lost_; }
  void SetFence(std::optional<std::chrono::steady_clock::time_point>) override {}
  absl::StatusOr<std::vector<pid_t>> EndOrphans(std::chrono::microseconds) override {
    if (!lost_.ok()) return lost_;
    return left_;
  }

  absl::Status lost_;
  std::vector<pid_t> left_;
  std::vector<pid_t> signalled_;
  int reaped_ = 0;
};

class NodeClearerTest : public testing::Test {
 protected:
  ~NodeClearerTest() override {
    for (const pid_t pid : children_) End(pid);
  }

  pid_t Child() {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (;;) ::pause();
    }
    children_.push_back(pid);
    return pid;
  }
  void Kill(pid_t pid) {
    ::kill(pid, SIGKILL);
    siginfo_t info;  // it stays a zombie
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  }
  static void End(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  static UniqueFd PidFd(pid_t pid) {
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  }
  std::vector<int> Clear() {
    std::vector<int> pids;
    clearer_.Clear({.is_late = true}, [&](const absl::StatusOr<std::vector<StuckProcess>>& stuck) {
      status_ = stuck.status();
      if (!stuck.ok()) return;
      last_ = *stuck;
      for (const StuckProcess& process : last_) pids.push_back(process.pid);
    });
    return pids;
  }
  EventLoop loop_;
  IdleRunner runner_;
  std::vector<pid_t> ended_;
  absl::Status lost_;
  NodeClearer clearer_{&loop_,
                       &runner_,
                       {.ended =
                            [this](pid_t pid) {
                              ended_.push_back(pid);
                              loop_.Quit();
                            },
                        .lost =
                            [this](const absl::Status& why) {
                              lost_ = why;
                              loop_.Quit();
                            }}};
  absl::Status status_;
  std::vector<StuckProcess> last_;
  std::vector<pid_t> children_;
};

TEST_F(NodeClearerTest, AnExitingWorkerIsWaitedForUntilItIsGone) {
  const pid_t worker = Child();
  clearer_.AdoptExiting(worker, PidFd(worker), Rank{0});
  bool done = false;
  clearer_.Clear({}, [&](const absl::StatusOr<std::vector<StuckProcess>>& stuck) {
    done = true;
    EXPECT_THAT(*stuck, IsEmpty());
  });
  EXPECT_FALSE(done);
  Kill(worker);
  loop_.Run();
  EXPECT_TRUE(done);
  EXPECT_EQ(runner_.reaped_, 1);
}

TEST_F(NodeClearerTest, AnExitingWorkerWithAChildIsWaitedForInAnyCase) {
  const ReadyProcess process([] {
    const pid_t parent = ::getpid();
    if (::fork() != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    for (;;) ::pause();
  });
  const pid_t worker = process.pid();
  clearer_.AdoptExiting(worker, PidFd(worker), Rank{0});
  bool done = false;
  clearer_.Clear({.may_be_exiting = true},
                 [&](const absl::StatusOr<std::vector<StuckProcess>>&) { done = true; });
  EXPECT_FALSE(done);
  Kill(worker);
  loop_.Run();
  EXPECT_TRUE(done);
}

TEST_F(NodeClearerTest, WhereItMayBeExitingNobodyWaitsForIt) {
  const pid_t worker = Child();
  clearer_.AdoptExiting(worker, PidFd(worker), Rank{0});
  bool done = false;
  clearer_.Clear({.may_be_exiting = true},
                 [&](const absl::StatusOr<std::vector<StuckProcess>>& stuck) {
                   done = true;
                   EXPECT_THAT(*stuck, IsEmpty());
                 });
  EXPECT_TRUE(done);
  Kill(worker);
  loop_.Run();
  EXPECT_EQ(runner_.reaped_, 1) << "it is still collected";
}

TEST_F(NodeClearerTest, AWorkerIsNamedWithItsRankAndCollectedWhenItEnds) {
  const pid_t worker = Child();
  clearer_.Adopt(worker, PidFd(worker), Rank{3}, EventLoop::Clock::now() - seconds(2));
  EXPECT_THAT(Clear(), ElementsAre(worker));
  EXPECT_EQ(last_.at(0).rank, Rank{3});
  EXPECT_GE(last_.at(0).stuck, seconds(2));
  EXPECT_EQ(last_.at(0).state, ProcessState::kRunnable);
  Kill(worker);
  loop_.Run();
  EXPECT_THAT(ended_, ElementsAre(worker));
  EXPECT_THAT(runner_.signalled_, ElementsAre(worker)) << "its group, while the number is its own";
  EXPECT_EQ(runner_.reaped_, 1);
  EXPECT_THAT(Clear(), IsEmpty());
}

TEST_F(NodeClearerTest, WhatAWorkerLeftBehindHasNoRankAndTheGuardianCollectsIt) {
  const pid_t orphan = Child();
  runner_.left_ = {orphan};
  EXPECT_THAT(Clear(), ElementsAre(orphan));
  EXPECT_FALSE(last_.at(0).rank);
  Kill(orphan);
  loop_.Run();
  EXPECT_THAT(ended_, ElementsAre(orphan));
  EXPECT_EQ(runner_.reaped_, 0);
}

// Otherwise the agent would name the zombie for as long as the debugger lives.
TEST_F(NodeClearerTest, AZombieThatADebuggerKeepsIsNotNamed) {
  const pid_t orphan = Child();
  Kill(orphan);
  runner_.left_ = {orphan};
  EXPECT_THAT(Clear(), IsEmpty());
}

TEST_F(NodeClearerTest, OneThatEndsBeforeTheNextLookIsForgotten) {
  const pid_t orphan = Child();
  runner_.left_ = {orphan};
  EXPECT_THAT(Clear(), ElementsAre(orphan));
  runner_.left_ = {};
  EXPECT_THAT(Clear(), IsEmpty());
}

TEST_F(NodeClearerTest, WhereTheGuardianIsGoneThereIsNothingToName) {
  const pid_t worker = Child();
  clearer_.Adopt(worker, PidFd(worker), Rank{3}, EventLoop::Clock::now());
  runner_.lost_ = absl::UnavailableError("the guardian was killed");
  EXPECT_THAT(Clear(), IsEmpty());
  EXPECT_TRUE(absl::IsUnavailable(status_));
  Kill(worker);
  loop_.Run();
  EXPECT_TRUE(absl::IsUnavailable(lost_));
  EXPECT_THAT(ended_, IsEmpty());
}

}  // namespace node_clearer_test
}  // namespace ddprun
