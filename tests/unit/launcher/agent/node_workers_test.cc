// How the workers of a node are started. The runner is a fake: the test decides when a program
// executes.
#include "launcher/agent/node_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/launcher/agent/fake_runner.h"
#include "tests/unit/launcher/os/marked_process.h"

namespace ddprun {
namespace node_workers_test {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

class NodeWorkersTest : public testing::Test {
 protected:
  NodeWorkersTest() {
    auto control = ControlSocket::Listen(
        &loop_, folder_.path(), [](const ControlPeer&, const ControlMessage&) {},
        [](pid_t, const std::string&) {}, [](pid_t) { return false; });
    EXPECT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
    Standbys::Options none;
    standbys_ = std::make_unique<Standbys>(std::move(none), &loop_, &runner_, &files_,
                                           control_.get(), nullptr, nullptr);
  }

  void Make(int count) {
    workers_ = std::make_unique<NodeWorkers>(
        count, WorkerLogs::Options{}, &loop_, &runner_, &files_, Console{}, control_.get(),
        NodeWorkers::Events{
            .started = [this](LocalRank worker, pid_t) { Tell("started ", worker); },
            .not_started = [this](LocalRank worker,
                                  const absl::Status&) { Tell("not started ", worker); },
            .ended =
                [this](const NodeWorkers::Ended& ended) {
                  Tell((ended.status.Describe() + " ").c_str(), ended.local_rank);
                },
            .lost = [this](const absl::Status& why) { Tell(why.message()); },
            .stuck_ended = [](pid_t) {},
        });
  }
  void StartAll(int count) {
    if (workers_ == nullptr) Make(count);
    workers_->StartAll({Rank{0}, [](LocalRank) { return SpawnRequest{}; },
                        [](LocalRank) { return std::string(); }},
                       standbys_.get());
  }
  // Also runs the loop until Spawn() was called for each worker.
  void StartAndReachAll(int count) {
    StartAll(count);
    while (static_cast<int>(runner_.outcomes_.size()) < count) TurnFor(milliseconds(1));
  }
  void Tell(const char* what, LocalRank worker) { Tell(what + std::to_string(worker.value)); }
  void Tell(absl::string_view what) {
    told_.emplace_back(what);
    if (told_.size() == awaited_) loop_.Quit();
  }
  // Runs the loop until this number of reports arrived.
  std::vector<std::string> Await(std::size_t count) {
    awaited_ = count;
    if (told_.size() < count) loop_.Run();
    return std::exchange(told_, {});
  }
  // Runs the loop for this time.
  void TurnFor(milliseconds time) {
    loop_.AddTimer(EventLoop::Clock::now() + time, [this] { loop_.Quit(); });
    loop_.Run();
  }
  // Counts how often the loop serves a timer. Heartbeats need such turns of the loop.
  void CountTurns() {
    ++turns_;
    loop_.AddTimer(EventLoop::Clock::now() + milliseconds(1), [this] { CountTurns(); });
  }

  TempDir folder_;
  EventLoop loop_;
  FakeRunner runner_;
  WriterThread files_{&loop_, [](const absl::Status&) {}};
  std::unique_ptr<ControlSocket> control_;
  std::unique_ptr<Standbys> standbys_;
  std::unique_ptr<NodeWorkers> workers_;
  std::vector<std::string> told_;
  std::size_t awaited_ = 0;
  int turns_ = 0;
};

TEST_F(NodeWorkersTest, OfTwoThatCannotBeExecutedTheLowerRankIsToldOfFirst) {
  StartAndReachAll(2);
  runner_.FailToExecute(1);  // the loop reads this failure first
  runner_.FailToExecute(0);
  EXPECT_THAT(Await(2), ElementsAre("not started 0", "not started 1"));
}

TEST_F(NodeWorkersTest, OneThatCannotBeExecutedIsToldOfOnceAllLowerRanksRun) {
  StartAndReachAll(3);
  runner_.FailToExecute(1);
  runner_.Execute(0);
  EXPECT_THAT(Await(2), ElementsAre("started 0", "not started 1"));
}

TEST_F(NodeWorkersTest, TheLoopGoesOnWhileLowerRanksKeepStarting) {
  StartAndReachAll(128);
  runner_.FailToExecute(127);
  CountTurns();
  EXPECT_THAT(Await(1), ElementsAre("not started 127"));
  EXPECT_GT(turns_, 1);
}

TEST_F(NodeWorkersTest, WhoWasNotToldOfWhenTheNodeIsClearedIsForgotten) {
  StartAndReachAll(2);
  runner_.FailToExecute(1);
  while (runner_.discarded_.empty()) TurnFor(milliseconds(1));
  workers_->Clear(/*may_be_exiting=*/false,
                  [](const absl::StatusOr<std::vector<StuckProcess>>&) {});
  TurnFor(milliseconds(100));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(NodeWorkersTest, TheLoopGoesOnWhileManyAreStarted) {
  runner_.takes_ = milliseconds(6);
  CountTurns();
  StartAll(8);
  turns_ = 0;
  while (runner_.outcomes_.size() < 8) TurnFor(milliseconds(1));
  EXPECT_GT(turns_, 5);
}

TEST_F(NodeWorkersTest, WorkersNotReachedWhenTheGenerationEndsAreNotStarted) {
  runner_.takes_ = milliseconds(6);
  StartAll(4);
  ASSERT_EQ(runner_.outcomes_.size(), 1u);
  workers_->StopStarting();
  EXPECT_THAT(told_, ElementsAre("not started 1", "not started 2", "not started 3"));
  TurnFor(milliseconds(50));
  EXPECT_EQ(runner_.outcomes_.size(), 1u);
  EXPECT_EQ(told_.size(), 3u);
}

TEST_F(NodeWorkersTest, AfterOneThatCannotBeMadeTheLaterOnesAreNotTried) {
  runner_.refused_ = 1;
  StartAll(4);
  EXPECT_THAT(Await(3), ElementsAre("not started 1", "not started 2", "not started 3"));
  EXPECT_EQ(runner_.outcomes_.size(), 1u);
}

// The pidfd of the fake runner never becomes readable, as if the kernel were still freeing the
// memory of the worker.
// A worker that has begun to exit: its page says so, its pidfd does not yet.
class ExitingWorkerTest : public NodeWorkersTest {
 protected:
  std::vector<std::string> ReportsOfItsDeath() {
    Make(1);
    const MarkedProcess process(workers_->progress().PageOf(LocalRank{0}));
    runner_.pid_ = process.pid();
    StartAndReachAll(1);
    runner_.Execute(0);
    EXPECT_THAT(Await(1), ElementsAre("started 0"));
    workers_->Hear(LocalRank{0}, {}, ReadyMsg{}, EventLoop::Clock::now());
    process.Kill();
    return Await(1);
  }
};

TEST_F(ExitingWorkerTest, IsReportedBeforeItsPidfdSaysSo) {
  runner_.reap_ = absl::FailedPreconditionError("it still runs");
  EXPECT_THAT(ReportsOfItsDeath(), ElementsAre("SIGKILL 0"));
}

// Without its guardian, the kernel has killed all workers. None of them is the cause.
TEST_F(ExitingWorkerTest, IsNoCauseIfTheGuardianIsGone) {
  runner_.reap_ = absl::UnavailableError("the guardian is gone");
  EXPECT_THAT(ReportsOfItsDeath(), ElementsAre("the guardian is gone"));
}

}  // namespace node_workers_test
}  // namespace ddprun
