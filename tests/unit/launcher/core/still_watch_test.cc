// What an agent reports about the progress of its workers.
#include "launcher/core/still_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace ddprun {
namespace still_watch_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class StillWatchTest : public testing::Test {
 protected:
  // Looks at two workers a heartbeat later.
  NodeProgress Look(Duration later = seconds(1)) {
    now_ += later;
    return watch_.Look(workers_, now_, [this](int pid) {
      ++asked_;
      if (!copying_stacks_) facts_[pid].read_at = now_;
      return facts_[pid];
    });
  }
  NodeProgress LookFor(int heartbeats) {
    NodeProgress progress;
    for (int i = 0; i < heartbeats; ++i) progress = Look();
    return progress;
  }

  std::vector<SeenWorker> workers_ = {{LocalRank{0}, 100, 1, 7, ""}, {LocalRank{1}, 101, 1, 7, ""}};
  std::map<int, ProcessFacts> facts_;
  bool copying_stacks_ = false;  // the facts are not read again
  int asked_ = 0;                // how often facts were read
  StillWatch watch_{seconds(1)};
  TimePoint now_{std::chrono::hours(1)};
};

TEST_F(StillWatchTest, TheWorkerThatMovedLastSaysForHowLongTheNodeIsStill) {
  Look();
  EXPECT_EQ(LookFor(3).still, seconds(3));
  ++workers_[1].moves;
  EXPECT_EQ(Look().still, Duration{});
  EXPECT_EQ(LookFor(2).still, seconds(2));
}

TEST_F(StillWatchTest, TheNumberOfMovesChangesWithEachMoveAndWithNothingElse) {
  const std::uint64_t first = Look().moves;
  EXPECT_NE(first, 0U);
  EXPECT_EQ(LookFor(3).moves, first);
  ++workers_[1].moves;
  const std::uint64_t second = Look().moves;
  EXPECT_NE(second, first);
  workers_.pop_back();  // the worker has sent BYE
  EXPECT_EQ(Look().moves, second);
}

TEST_F(StillWatchTest, DetailsAreToldOnlyOnceNoWorkerMoves) {
  Look();
  for (int i = 0; i < 5; ++i) {
    ++workers_[1].moves;
    EXPECT_THAT(Look().still_workers, IsEmpty()) << "one of them goes on";
  }
  const NodeProgress progress = LookFor(4);
  ASSERT_EQ(progress.still_workers.size(), 2U);
  EXPECT_EQ(progress.still_workers[0].still, seconds(9));
  EXPECT_EQ(progress.still_workers[1].still, seconds(4));
  EXPECT_EQ(progress.still_workers[1].step, 7);
}

// Reading facts costs the agent's loop some microseconds for each thread. Seen red where they were
// read for every worker that stood still between two looks.
TEST_F(StillWatchTest, FactsAreAskedOnlyOnceNoWorkerHasMovedForASecond) {
  Look();
  for (int i = 0; i < 9; ++i) {
    Look(milliseconds(200));
    if (i % 4 == 3) ++workers_[1].moves;
  }
  EXPECT_EQ(asked_, 0);
  for (int i = 0; i < 4; ++i) Look(milliseconds(200));
  EXPECT_EQ(asked_, 0);
  Look(milliseconds(200));
  EXPECT_EQ(asked_, 2);
}

// An evaluation without a named phase reads from a disk. Seen red where state D at one look was
// enough.
TEST_F(StillWatchTest, AWorkerThatIsNowAndThenInDiskWaitIsNotHeldThere) {
  LookFor(3);
  facts_[100].state = ProcessState::kDiskWait;
  EXPECT_EQ(Look().still_workers[0].state, ProcessState::kRunnable) << "a look says nothing";
  facts_[100].io_bytes += 1 << 20;
  EXPECT_EQ(Look().still_workers[0].state, ProcessState::kRunnable) << "it reads";
  EXPECT_EQ(Look().still_workers[0].state, ProcessState::kDiskWait);
  facts_[100].cpu += milliseconds(20);
  EXPECT_EQ(Look().still_workers[0].state, ProcessState::kRunnable) << "it computes";
}

// Threads of NCCL and of metrics use some CPU meanwhile. Seen red where the CPU time of the process
// decided.
TEST_F(StillWatchTest, WhoseThreadDoesNotRunInDiskWaitIsHeldThereWhateverOthersDo) {
  LookFor(3);
  facts_[100].state = ProcessState::kDiskWait;
  facts_[100].disk = DiskWait{100, 7, "read(/data)"};
  Look();
  facts_[100].cpu += milliseconds(20);
  EXPECT_EQ(Look().still_workers[0].state, ProcessState::kDiskWait);
  facts_[100].cpu += milliseconds(20);
  ++facts_[100].disk->switches;
  EXPECT_EQ(Look().still_workers[0].state, ProcessState::kRunnable) << "it has run meanwhile";
}

// Before its verdict, the rendezvous asks for the stacks. Seen red where old facts counted as
// another look: the verdict did not mention the disk.
TEST_F(StillWatchTest, OneInDiskWaitStaysThereWhileItsStacksAreCopied) {
  LookFor(3);
  facts_[100].state = ProcessState::kDiskWait;
  facts_[100].waits_for = "read(/data)";
  LookFor(2);
  copying_stacks_ = true;
  const NodeProgress progress = LookFor(2);
  EXPECT_EQ(progress.still_workers[0].state, ProcessState::kDiskWait);
  EXPECT_EQ(progress.still_workers[0].waits_for, "read(/data)");
}

// For example, a thread that writes a checkpoint in the background.
TEST_F(StillWatchTest, AnotherThreadInDiskWaitDoesNotHoldTheRankAndIsToldAllTheSame) {
  facts_[100].waits_for = "futex";
  LookFor(3);
  facts_[100].disk = DiskWait{177, 7, "write(/ckpt/x)"};
  EXPECT_EQ(Look().still_workers[0].waits_for, "futex") << "a look says nothing";
  const NodeProgress progress = Look();
  EXPECT_EQ(progress.still_workers[0].state, ProcessState::kRunnable);
  EXPECT_EQ(progress.still_workers[0].waits_for,
            "futex, and its thread 177 is in disk wait (D) in write(/ckpt/x)");
  facts_[100].disk->process = "rsync";
  EXPECT_EQ(Look().still_workers[0].waits_for,
            "futex, and its process 177 (rsync) is in disk wait (D) in write(/ckpt/x)");
}

TEST_F(StillWatchTest, AStepOfAProgramThatReportsNoneIsSeenByThePhase) {
  EXPECT_FALSE(Look().stepped);
  workers_[1].stepped = true;
  EXPECT_TRUE(Look().stepped);
  workers_[1].stepped = false;  // the worker evaluates
  EXPECT_TRUE(Look().stepped);
  watch_.Begin(now_);
  EXPECT_FALSE(Look().stepped);
}

// ---- workers that have told nothing ----

TEST_F(StillWatchTest, AWorkerThatHasToldNothingIsToldOfApartFromTheOthers) {
  workers_[1].silent = true;
  watch_.Begin(now_);
  facts_[101].state = ProcessState::kStopped;
  facts_[101].waits_for = "read(/data)";
  const NodeProgress progress = LookFor(5);
  EXPECT_EQ(progress.workers, 1);
  EXPECT_EQ(progress.still_workers.size(), 1U);
  ASSERT_EQ(progress.silent_workers.size(), 1U);
  const StillWorker& silent = progress.silent_workers[0];
  EXPECT_EQ(silent.local_rank, LocalRank{1});
  EXPECT_EQ(silent.pid, 101);
  EXPECT_EQ(silent.still, seconds(5)) << "since its start";
  EXPECT_EQ(silent.state, ProcessState::kStopped);
  EXPECT_EQ(silent.waits_for, "read(/data)");
}

TEST_F(StillWatchTest, ANodeWhereNobodyTellsAnythingTellsOfItsWorkersAllTheSame) {
  workers_[0].silent = workers_[1].silent = true;
  const NodeProgress progress = LookFor(3);
  EXPECT_EQ(progress.workers, 0);
  EXPECT_EQ(progress.silent_workers.size(), 2U);
  EXPECT_THAT(progress.phases, IsEmpty());
}

TEST_F(StillWatchTest, WhereAnotherWorkerMovesSilentOnesAreNotToldOf) {
  workers_[1].silent = true;
  for (int i = 0; i < 5; ++i) {
    ++workers_[0].moves;
    EXPECT_THAT(Look().silent_workers, IsEmpty());
  }
  EXPECT_EQ(LookFor(2).silent_workers.size(), 1U);
}

TEST_F(StillWatchTest, OneThatBeginsToTellIsNotSilentAnyMore) {
  workers_[1].silent = true;
  EXPECT_EQ(LookFor(3).silent_workers.size(), 1U);
  workers_[1].silent = false;
  workers_[1].moves = 2;
  const NodeProgress progress = Look();
  EXPECT_EQ(progress.workers, 2);
  EXPECT_THAT(progress.silent_workers, IsEmpty());
  EXPECT_EQ(progress.still, Duration{}) << "its first word is a move";
}

TEST_F(StillWatchTest, ADebuggerExcusesASilentWorkerAndNobodyElse) {
  workers_[1].silent = true;
  LookFor(3);
  facts_[101].state = ProcessState::kTraced;
  const NodeProgress progress = Look();
  EXPECT_TRUE(progress.silent_excused);
  EXPECT_FALSE(progress.excused);
}

TEST_F(StillWatchTest, TimeInWhichTheAgentDidNotLookDoesNotCountForSilentOnesEither) {
  workers_[0].silent = workers_[1].silent = true;
  LookFor(3);
  EXPECT_FALSE(Look().silent_excused);
  EXPECT_TRUE(Look(seconds(60)).silent_excused);
}

// A worker can hang after its BYE: in a static destructor.
TEST_F(StillWatchTest, AWorkerThatHasSaidByeAndRunsOnIsToldOfWithTheTimeSinceThen) {
  LookFor(3);
  workers_[1] = SeenWorker{LocalRank{1}, 101};
  workers_[1].leaving = true;
  EXPECT_THAT(Look().leaving_workers, IsEmpty()) << "it ends, mostly";
  const NodeProgress progress = LookFor(5);
  ASSERT_EQ(progress.leaving_workers.size(), 1U);
  EXPECT_EQ(progress.leaving_workers[0].pid, 101);
  EXPECT_EQ(progress.leaving_workers[0].still, seconds(5));
  EXPECT_EQ(progress.workers, 1) << "it is not judged with the others";
  ASSERT_EQ(progress.still_workers.size(), 1U);
  EXPECT_EQ(progress.still_workers[0].pid, 100);
}

TEST_F(StillWatchTest, TimeUnderADebuggerDoesNotCountForOneThatIsLeavingEither) {
  workers_.resize(1);
  workers_[0] = SeenWorker{LocalRank{0}, 100};
  workers_[0].leaving = true;
  LookFor(6);
  facts_[100].state = ProcessState::kTraced;
  EXPECT_EQ(LookFor(3).leaving_workers[0].still, seconds(5));
}

TEST_F(StillWatchTest, AnotherProcessWithTheRankBeginsAnew) {
  LookFor(10);
  workers_[0].pid = 200;
  EXPECT_EQ(Look().still, Duration{});
}

// After Ctrl-Z, or if the machine was suspended or overloaded, the agent does not know what the
// workers did meanwhile.
TEST_F(StillWatchTest, TimeInWhichTheAgentDidNotLookDoesNotCount) {
  LookFor(3);
  const NodeProgress progress = Look(seconds(60));
  EXPECT_TRUE(progress.excused);
  EXPECT_EQ(progress.still, Duration{});
  EXPECT_FALSE(Look().excused);
}

TEST_F(StillWatchTest, ADebuggerExcuses) {
  LookFor(3);
  facts_[101].state = ProcessState::kTraced;
  EXPECT_TRUE(Look().excused);
  facts_[101].state = ProcessState::kStopped;
  EXPECT_FALSE(Look().excused) << "a stopped worker is what we look for";
  EXPECT_EQ(Look().still_workers[1].state, ProcessState::kStopped);
}

// A forgotten debugger delays each verdict. So the report must name it.
TEST_F(StillWatchTest, WhoIsExcusedAndByWhomAndSinceWhenIsTold) {
  LookFor(3);
  EXPECT_EQ(Look().excuse, std::nullopt);
  facts_[101].state = ProcessState::kTraced;
  facts_[101].tracer = "is held by gdb (pid 77)";
  EXPECT_EQ(Look().excuse, (HangExcuse{LocalRank{1}, 101, "is held by gdb (pid 77)", {}}));
  EXPECT_EQ(LookFor(9).excuse->lasts, seconds(9));
  facts_[101].state = ProcessState::kRunnable;
  EXPECT_EQ(Look().excuse, std::nullopt);
}

TEST_F(StillWatchTest, OfSeveralExcusesTheLongestIsTold) {
  workers_[0].silent = true;
  LookFor(3);
  facts_[101].state = ProcessState::kTraced;
  LookFor(2);
  facts_[100].state = ProcessState::kTraced;
  const NodeProgress progress = LookFor(2);
  ASSERT_TRUE(progress.excuse);
  EXPECT_EQ(progress.excuse->local_rank, LocalRank{1});
  EXPECT_EQ(progress.excuse->lasts, seconds(3));
  EXPECT_EQ(progress.excuse->why, "is held by a debugger") << "which one is not known";
}

TEST_F(StillWatchTest, AnAgentThatComesTooLateAgainAndAgainIsAnExcuse) {
  LookFor(3);
  EXPECT_EQ(Look(seconds(60)).excuse->lasts, Duration{}) << "it was suspended, perhaps";
  const NodeProgress progress = Look(seconds(10));
  EXPECT_EQ(progress.excuse,
            (HangExcuse{{}, 0, "runs too seldom to watch its workers", seconds(10)}));
  EXPECT_EQ(Look().excuse, std::nullopt);
}

// Seen red when the time before the debugger was lost, too: a short visit of a debugger delayed the
// verdict by a whole limit.
TEST_F(StillWatchTest, ADebuggerStopsTheClock) {
  LookFor(5);
  facts_[101].state = ProcessState::kTraced;
  EXPECT_EQ(Look().still, seconds(4));
  EXPECT_EQ(LookFor(10).still, seconds(4));
  facts_[101].state = ProcessState::kRunnable;
  const NodeProgress progress = Look();
  EXPECT_EQ(progress.still, seconds(5));
  EXPECT_FALSE(progress.excused);
  ++workers_[1].moves;
  EXPECT_EQ(Look().still, Duration{});
  EXPECT_EQ(LookFor(2).still, seconds(2));
}

// Seen red where all of this worker's time was excused: a rank in an endless loop on a busy machine
// was never called a hang.
TEST_F(StillWatchTest, OfAWorkerThatWaitsForACpuTheTimeWithOneCounts) {
  LookFor(3);
  for (int i = 0; i < 10; ++i) {
    facts_[100].waited[100] += std::chrono::milliseconds(600);
    Look();
  }
  facts_[100].waited[100] += std::chrono::milliseconds(600);
  const NodeProgress progress = Look();
  EXPECT_TRUE(progress.excused);
  EXPECT_EQ(progress.still, progress.still_workers[0].still - std::chrono::milliseconds(6600));
}

// The main thread waits in backward() for another thread, which gets no CPU. Seen red where only
// the main thread counted: the worker was called a hang.
TEST_F(StillWatchTest, AnyOfItsThreadsMayBeTheOneThatWaitsForACpu) {
  LookFor(3);
  for (int i = 0; i < 10; ++i) {
    facts_[100].waited[177] += milliseconds(900);
    Look();
  }
  const NodeProgress progress = Look();
  EXPECT_TRUE(progress.excused);
  EXPECT_EQ(progress.still, progress.still_workers[0].still - seconds(9));
}

// The kernel counts a wait when it ends. Seen red when only ended waits counted: on a machine with
// waits longer than the limit, a healthy job was reported as a hang.
TEST_F(StillWatchTest, AWaitForACpuThatGoesOnCounts) {
  LookFor(3);
  facts_[100].waited[100] = {};
  facts_[100].wants[100] = seconds(1);
  Look();
  NodeProgress progress = LookFor(6);
  EXPECT_TRUE(progress.excused);
  EXPECT_EQ(progress.still, progress.still_workers[0].still - seconds(6));
  facts_[100].waited[100] = seconds(6);
  facts_[100].wants[100] += milliseconds(5);
  progress = Look();
  EXPECT_EQ(progress.still, progress.still_workers[0].still - seconds(6)) << "it is over";
}

// Seen red where the times of all threads were added up.
TEST_F(StillWatchTest, ManyThreadsThatWaitALittleDoNotStarve) {
  LookFor(3);
  for (int i = 0; i < 10; ++i) {
    for (int thread = 100; thread < 164; ++thread) facts_[100].waited[thread] += milliseconds(50);
    Look();
  }
  EXPECT_FALSE(Look().excused);
}

TEST_F(StillWatchTest, AWorkerThatSeldomWaitsForACpuIsNotExcused) {
  LookFor(3);
  facts_[100].waited[100] += seconds(1);
  const NodeProgress progress = LookFor(2);
  EXPECT_FALSE(progress.excused);
  EXPECT_EQ(progress.still, progress.still_workers[0].still);
}

TEST_F(StillWatchTest, WhoUsesTheCpuOrDoesInputIsBusy) {
  LookFor(3);
  EXPECT_FALSE(LookFor(2).still_workers[0].busy);
  facts_[100].cpu += seconds(5);
  facts_[101].io_bytes += 1 << 20;
  const NodeProgress progress = Look();
  EXPECT_TRUE(progress.still_workers[0].busy);
  EXPECT_TRUE(progress.still_workers[1].busy);
}

// An upload may use a new connection for each piece. Seen red where only file I/O counted.
TEST_F(StillWatchTest, WhoSendsOverTcpIsBusy) {
  using TcpBytes = std::map<std::uint64_t, std::int64_t>;
  LookFor(3);
  facts_[100].tcp_bytes = TcpBytes{{7, 1 << 30}};
  EXPECT_FALSE(LookFor(3).still_workers[0].busy) << "carried before the first look at it";
  facts_[100].tcp_bytes = TcpBytes{{8, 40'000}};
  EXPECT_FALSE(Look().still_workers[0].busy);
  facts_[100].tcp_bytes = TcpBytes{{9, 30'000}};
  EXPECT_TRUE(Look().still_workers[0].busy) << "70,000 bytes in all";
  facts_[100].tcp_bytes.reset();
  EXPECT_TRUE(Look().still_workers[0].busy) << "a look without numbers";
  facts_[100].tcp_bytes = TcpBytes{{9, 1 << 30}};
  EXPECT_FALSE(LookFor(11).still_workers[0].busy) << "it has sent nothing for 10 s";
}

// For example, a process reads or computes, and then waits for a lock. Seen red when each look was
// compared with the first one: the process counted as busy for ever, and its hang ended only after
// --hang-startup-timeout.
TEST_F(StillWatchTest, AnIdleWorkerStopsBeingBusyAfterTenSeconds) {
  LookFor(3);
  facts_[100].cpu += seconds(20);
  facts_[101].io_bytes += 200'000;
  EXPECT_TRUE(LookFor(9).still_workers[0].busy);
  const NodeProgress progress = LookFor(3);
  EXPECT_FALSE(progress.still_workers[0].busy);
  EXPECT_FALSE(progress.still_workers[1].busy);
  for (int i = 0; i < 30; ++i) {
    facts_[100].cpu += milliseconds(100);
    Look();
  }
  EXPECT_TRUE(Look().still_workers[0].busy) << "it works again";
}

// Heartbeats may be 60 s apart.
TEST_F(StillWatchTest, WithRareLooksTheLastOneIsComparedWith) {
  watch_ = StillWatch(seconds(60));
  for (int i = 0; i < 3; ++i) Look(seconds(60));
  facts_[100].cpu += seconds(20);
  EXPECT_TRUE(Look(seconds(60)).still_workers[0].busy);
  EXPECT_FALSE(Look(seconds(60)).still_workers[0].busy);
}

TEST_F(StillWatchTest, PhasesAreToldOnceEachAndBounded) {
  workers_[0].phase = "evaluation";
  EXPECT_THAT(Look().phases, ElementsAre("", "evaluation"));
  for (int i = 2; i < 20; ++i) {
    workers_.push_back({LocalRank{i}, 100 + i, 1, 7, "phase " + std::to_string(i)});
  }
  EXPECT_EQ(Look().phases.size(), NodeProgress::kMaxPhases);
}

// Seen red where only the phase at each look counted: a save of some milliseconds was never seen.
TEST_F(StillWatchTest, PhasesThatBeganAndEndedBetweenTwoLooksAreTold) {
  EXPECT_THAT(Look().phases_passed, IsEmpty());
  workers_[0].begun = {{"", 2}, {"save", 2}};
  workers_[1].begun = {{"evaluation", 1}, {"save", 1}};
  workers_[0].moves = workers_[1].moves = 9;
  EXPECT_THAT(Look().phases_passed, ElementsAre("", "evaluation", "save"));
  EXPECT_THAT(Look().phases_passed, IsEmpty()) << "none since then";
  ++workers_[0].begun["save"];
  workers_[0].phase = "save";
  ++workers_[0].moves;
  EXPECT_THAT(Look().phases_passed, IsEmpty()) << "it has begun and not ended";
  workers_[0].begun["save"] += 2;
  workers_[0].moves += 3;
  EXPECT_THAT(Look().phases_passed, ElementsAre("save")) << "it has begun, ended, and begun again";
}

TEST_F(StillWatchTest, PhasesThatHavePassedAreBounded) {
  for (int i = 0; i < 40; ++i) workers_[0].begun["phase " + std::to_string(i)] = 1;
  EXPECT_EQ(Look().phases_passed.size(), NodeProgress::kMaxPassed);
}

TEST_F(StillWatchTest, NobodyWhoTellsIsNobodyWhoIsStill) {
  workers_.clear();
  const NodeProgress progress = LookFor(5);
  EXPECT_EQ(progress.workers, 0);
  EXPECT_EQ(progress.still, Duration{});
}

}  // namespace still_watch_test
}  // namespace ddprun
