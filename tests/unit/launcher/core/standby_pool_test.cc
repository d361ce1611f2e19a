// StandbyPool: what it does over a job's life, and every state × event cell in
// tests/data/cells/standby_pool.txt.
#include "launcher/core/standby_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/golden.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace standby_pool_test {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

// Drives a StandbyPool for two workers, by default with two standbys. The test sets the clock.
class Driver {
 public:
  explicit Driver(int wanted = 2, bool forks = false)
      : pool_({.wanted = wanted, .workers = 2, .forks = forks}) {}

  // The actions that follow: "start 0 for rank 0, end 1, note: ...".
  std::string Step(const StandbyPool::Event& event) {
    return absl::StrJoin(pool_.Step(event, now_), ", ", [](std::string* out, const auto& action) {
      std::visit(
          Overloaded{
              [&](const StandbyPool::StartStandby& start) {
                absl::StrAppend(out, "start ", start.id, " for rank ", start.local_rank.value);
              },
              [&](const StandbyPool::EndStandby& end) { absl::StrAppend(out, "end ", end.id); },
              [&](const StandbyPool::Note& note) { absl::StrAppend(out, "note: ", note.text); },
              [&](const StandbyPool::StartCanBegin&) { absl::StrAppend(out, "begin"); },
          },
          action);
    });
  }
  // Time passes. Each deadline in it gets its Tick at its time.
  std::string Advance(Duration duration) {
    const TimePoint until = now_ + duration;
    std::vector<std::string> said;
    while (pool_.NextDeadline() && *pool_.NextDeadline() <= until) {
      now_ = std::max(now_, *pool_.NextDeadline());
      said.push_back(Step(StandbyPool::Tick{}));
    }
    now_ = until;
    return absl::StrJoin(said, ", ");
  }
  // A generation has settled, and its program can stand by: standby 0 is being started.
  std::string Settle() {
    Step(StandbyPool::GenerationStarted{});
    Step(StandbyPool::WorkerCanStandBy{});
    Step(StandbyPool::WorkerStepped{LocalRank{0}});
    return Step(StandbyPool::WorkerStepped{LocalRank{1}});
  }
  // The generation has settled, and all wanted standbys wait.
  void Fill() {
    Settle();
    Step(StandbyPool::StandbyWaiting{0});
    Step(StandbyPool::StandbyWaiting{1});
  }
  std::optional<StandbyPool::Id> Adopt(int local_rank) {
    return pool_.Adopt(LocalRank{local_rank}, now_);
  }
  StandbyPool& pool() { return pool_; }

 private:
  StandbyPool pool_;
  TimePoint now_{};
};

TEST(StandbyPoolTest, StartsOneAfterTheOtherWhenEveryWorkerHasMadeAStep) {
  Driver node;
  EXPECT_EQ(node.Step(StandbyPool::GenerationStarted{}), "");
  EXPECT_EQ(node.Step(StandbyPool::WorkerCanStandBy{}), "");
  EXPECT_EQ(node.Step(StandbyPool::WorkerStepped{LocalRank{1}}), "");
  EXPECT_EQ(node.Step(StandbyPool::WorkerStepped{LocalRank{1}}), "");
  EXPECT_EQ(node.Step(StandbyPool::WorkerStepped{LocalRank{0}}), "start 0 for rank 0");
  EXPECT_EQ(node.Step(StandbyPool::WorkerStepped{LocalRank{0}}), "");
  EXPECT_EQ(node.Step(StandbyPool::StandbyWaiting{0}), "start 1 for rank 1");
  EXPECT_EQ(node.Step(StandbyPool::StandbyWaiting{1}), "");
}

TEST(StandbyPoolTest, AJobThatTellsNoStepsSettlesAfterAWhile) {
  Driver node;
  node.Step(StandbyPool::GenerationStarted{});
  node.Step(StandbyPool::WorkerCanStandBy{});
  EXPECT_EQ(node.Advance(seconds(3) - Duration(1)), "");
  EXPECT_EQ(node.Advance(Duration(1)), "start 0 for rank 0");
}

// Break: do not check able_. Then a program that does not use the library runs twice.
TEST(StandbyPoolTest, NeverStartsAProgramThatHasNotShownThatItWaits) {
  Driver node;
  node.Step(StandbyPool::GenerationStarted{});
  node.Step(StandbyPool::WorkerStepped{LocalRank{0}});
  node.Step(StandbyPool::WorkerStepped{LocalRank{1}});
  EXPECT_EQ(node.Advance(minutes(60)), "");
  node.Step(StandbyPool::GenerationEnded{});
  EXPECT_THAT(node.Step(StandbyPool::GenerationStarted{}),
              HasSubstr("note: there is no warm standby: no worker has come to ddp::init()"));
  EXPECT_EQ(node.Advance(minutes(60)), "");
  node.Step(StandbyPool::GenerationEnded{});
  EXPECT_EQ(node.Step(StandbyPool::GenerationStarted{}), "") << "said once";
}

TEST(StandbyPoolTest, HandsOutWhatWaitsForThisRankOnce) {
  Driver node;
  node.Settle();
  EXPECT_EQ(node.pool().Take(LocalRank{0}), std::nullopt) << "it does not wait yet";
  node.Step(StandbyPool::StandbyWaiting{0});
  node.Step(StandbyPool::StandbyWaiting{1});
  EXPECT_EQ(node.pool().Take(LocalRank{1}), 1);
  EXPECT_EQ(node.pool().Take(LocalRank{1}), std::nullopt);
  EXPECT_EQ(node.pool().Take(LocalRank{0}), 0);
}

TEST(StandbyPoolTest, RefillsAfterARestartWhenTheNewGenerationHasSettled) {
  Driver node;
  node.Fill();
  EXPECT_EQ(node.Step(StandbyPool::GenerationEnded{}), "");
  node.pool().Take(LocalRank{0});
  node.pool().Take(LocalRank{1});
  EXPECT_EQ(node.Step(StandbyPool::GenerationStarted{}), "");
  EXPECT_EQ(node.Step(StandbyPool::WorkerStepped{LocalRank{0}}), "");
  EXPECT_EQ(node.Step(StandbyPool::WorkerStepped{LocalRank{1}}), "start 2 for rank 0");
}

TEST(StandbyPoolTest, WhatIsStillLoadingAtARestartIsEndedAndStartedAgainLater) {
  Driver node;
  node.Settle();
  EXPECT_EQ(node.Step(StandbyPool::GenerationEnded{}), "end 0");
  EXPECT_EQ(node.Settle(), "start 1 for rank 0");
}

TEST(StandbyPoolTest, SpreadsOverTheLocalRanks) {
  Driver node(3);
  EXPECT_EQ(node.Settle(), "start 0 for rank 0");
  EXPECT_EQ(node.Step(StandbyPool::StandbyWaiting{0}), "start 1 for rank 0");
  EXPECT_EQ(node.Step(StandbyPool::StandbyWaiting{1}), "start 2 for rank 1");
  EXPECT_EQ(node.Step(StandbyPool::StandbyWaiting{2}), "");
}

TEST(StandbyPoolTest, ReplacesAtOnceWhatHadWaitedForLong) {
  Driver node;
  node.Fill();
  node.Advance(minutes(1));
  EXPECT_EQ(node.Step(StandbyPool::StandbyEnded{1, "SIGTERM"}), "start 2 for rank 1");
}

TEST(StandbyPoolTest, GivesUpWithOneLineAfterEarlyEndsWithDoublingPauses) {
  Driver node;
  node.Settle();
  EXPECT_EQ(node.Step(StandbyPool::StandbyEnded{0, "x"}), "");
  EXPECT_EQ(node.Advance(seconds(1) - Duration(1)), "");
  EXPECT_EQ(node.Advance(Duration(1)), "start 1 for rank 0");
  node.Step(StandbyPool::StandbyEnded{1, "x"});
  EXPECT_EQ(node.Advance(seconds(1)), "");
  EXPECT_EQ(node.Advance(seconds(1)), "start 2 for rank 0");
  node.Step(StandbyPool::StandbyEnded{2, "x"});
  EXPECT_EQ(node.Advance(seconds(4)), "start 3 for rank 0");
  EXPECT_EQ(node.Step(StandbyPool::StandbyEnded{3, "exited with code 1"}),
            "note: no more warm standbys are started: 4 standbys in a row have ended early, the "
            "last one exited with code 1; workers are started cold from now on");
  EXPECT_EQ(node.Advance(minutes(60)), "");
  EXPECT_EQ(node.Settle(), "");
}

// Red if OnUsed() does nothing.
TEST(StandbyPoolTest, AStandbyThatBecomesAWorkerEndsTheRowOfEarlyEnds) {
  Driver node;
  node.Settle();
  for (int id = 0; id < 3; ++id) {
    node.Step(StandbyPool::StandbyEnded{id, "x"});
    node.Advance(seconds(8));
  }
  node.Step(StandbyPool::StandbyWaiting{3});
  node.Step(StandbyPool::StandbyWaiting{4});
  ASSERT_EQ(node.pool().Take(LocalRank{0}), 3);
  node.pool().OnUsed();
  EXPECT_EQ(node.Settle(), "start 5 for rank 0");
  EXPECT_EQ(node.Step(StandbyPool::StandbyEnded{5, "x"}), "");
  EXPECT_EQ(node.Advance(seconds(1)), "start 6 for rank 0");
}

TEST(StandbyPoolTest, OneThatDoesNotComeToWaitIsEndedAndNoOtherIsTried) {
  Driver node;
  node.Settle();
  EXPECT_EQ(node.Advance(minutes(5) - Duration(1)), "");
  EXPECT_EQ(node.Advance(Duration(1)),
            "end 0, note: no more warm standbys are started: a standby has not come to "
            "ddp::init() within 300 s; workers are started cold from now on");
  EXPECT_EQ(node.Advance(minutes(60)), "");
}

TEST(StandbyPoolTest, WhatWaitsIsStillUsedAfterGivingUp) {
  Driver node;
  node.Settle();
  node.Step(StandbyPool::StandbyWaiting{0});
  node.Advance(minutes(5));
  ASSERT_EQ(node.pool().state(), StandbyPoolState::kGivenUp);
  EXPECT_EQ(node.pool().Take(LocalRank{0}), 0);
}

TEST(StandbyPoolTest, NothingIsLeftWhenTheJobEnds) {
  Driver node;
  node.Settle();
  node.Step(StandbyPool::StandbyWaiting{0});
  EXPECT_EQ(node.Step(StandbyPool::JobEnded{}), "end 0, end 1");
  EXPECT_EQ(node.Settle(), "");
  EXPECT_EQ(node.pool().Take(LocalRank{0}), std::nullopt);
}

TEST(StandbyPoolTest, AWorkerThatStaysIsTakenBeforeAStandby) {
  Driver node;
  node.Fill();
  node.Step(StandbyPool::GenerationEnded{});
  EXPECT_EQ(node.Adopt(1), 2);
  EXPECT_EQ(node.pool().Take(LocalRank{1}), 2);
  EXPECT_EQ(node.pool().Take(LocalRank{1}), 1);
}

TEST(StandbyPoolTest, AWorkerThatStaysIsNoStandby) {
  Driver node;
  node.Settle();
  node.Step(StandbyPool::StandbyWaiting{0});
  EXPECT_EQ(node.Step(StandbyPool::GenerationEnded{}), "end 1");
  node.Adopt(1);
  EXPECT_EQ(node.Settle(), "start 3 for rank 1") << "it does not fill a standby's place";
  node.Step(StandbyPool::StandbyWaiting{3});
  EXPECT_EQ(node.Step(StandbyPool::StandbyEnded{2, "SIGKILL"}), "") << "nor is it replaced";
  EXPECT_EQ(node.pool().Take(LocalRank{1}), 3);
}

TEST(StandbyPoolTest, WithoutStandbysWorkersStayAllTheSame) {
  Driver node(0);
  EXPECT_EQ(node.Settle(), "");
  node.Step(StandbyPool::GenerationEnded{});
  EXPECT_EQ(node.Adopt(0), 0);
  EXPECT_EQ(node.Adopt(1), 1);
  EXPECT_EQ(node.pool().Take(LocalRank{1}), 1);
  EXPECT_EQ(node.Settle(), "");
  EXPECT_EQ(node.Step(StandbyPool::JobEnded{}), "end 0");
  EXPECT_EQ(node.Adopt(1), std::nullopt) << "there is nothing to wait for";
}

// ---- a node that joins a running job ----

constexpr StandbyPool::StartComing kStartAhead{seconds(60), /*program_waits=*/true};

TEST(StandbyPoolAheadTest, EveryLocalRankHasAStandbyAtOnceAlsoWhereNoneAreKept) {
  Driver node(0);
  EXPECT_EQ(node.Step(kStartAhead), "start 0 for rank 0, start 1 for rank 1");
  EXPECT_EQ(node.Step(StandbyPool::StandbyWaiting{0}), "");
  EXPECT_EQ(node.Step(StandbyPool::StandbyWaiting{1}), "begin");
  EXPECT_EQ(node.pool().Take(LocalRank{0}), 0);
  EXPECT_EQ(node.pool().Take(LocalRank{1}), 1);
  EXPECT_EQ(node.Settle(), "") << "none is kept";
}

// Break: leave the standbys that load running. Then each worker starts beside another process that
// loads the same program.
TEST(StandbyPoolAheadTest, AfterTheLimitTheWorkersStartWithTheStandbysThatWait) {
  Driver node(0);
  node.Step(kStartAhead);
  node.Step(StandbyPool::StandbyWaiting{1});
  EXPECT_EQ(node.Advance(seconds(60) - Duration(1)), "");
  EXPECT_EQ(node.Advance(Duration(1)), "end 0, begin");
  EXPECT_EQ(node.pool().Take(LocalRank{0}), std::nullopt);
  EXPECT_EQ(node.pool().Take(LocalRank{1}), 1);
}

TEST(StandbyPoolAheadTest, TheWorkersStartIfAStandbyEnds) {
  Driver node(0);
  node.Step(kStartAhead);
  node.Step(StandbyPool::StandbyWaiting{0});
  EXPECT_EQ(node.Step(StandbyPool::StandbyEnded{1, "by SIGSEGV"}), "begin");
}

// Break: end them. Then they begin again from nothing.
TEST(StandbyPoolAheadTest, TheEndOfAGenerationEndsNoStandbyForTheStartThatComes) {
  Driver node(0);
  node.Step(kStartAhead);
  EXPECT_EQ(node.Step(StandbyPool::GenerationEnded{}), "");
}

// Break: do not require that the program is known to wait. Then it trains in the standby.
TEST(StandbyPoolAheadTest, WithoutAForkServerNothingStartsUnlessTheProgramIsKnownToWait) {
  Driver node(2);
  EXPECT_EQ(node.Step(StandbyPool::StartComing{seconds(60)}), "begin");
}

// ---- with a fork server ----

constexpr StandbyPool::ForksChanged kForks{Forks::kNow};
constexpr StandbyPool::ForksChanged kForksLater{Forks::kLater};
constexpr StandbyPool::ForksChanged kNeverForks{Forks::kNever};
constexpr StandbyPool::StartComing kStartComing{seconds(20)};

Driver Forking(int wanted) { return Driver(wanted, /*forks=*/true); }

TEST(StandbyPoolForksTest, TheFirstWorkersAreForkedAtOnceWhenTheImportsHaveEnded) {
  Driver node = Forking(0);
  EXPECT_EQ(node.Step(kStartComing), "");
  EXPECT_EQ(node.Step(kForks), "start 0 for rank 0, start 1 for rank 1");
  EXPECT_EQ(node.Step(StandbyPool::StandbyWaiting{1}), "");
  EXPECT_EQ(node.Step(StandbyPool::StandbyWaiting{0}), "begin");
  EXPECT_EQ(node.pool().Take(LocalRank{0}), 0);
  EXPECT_EQ(node.pool().Take(LocalRank{1}), 1);
  EXPECT_EQ(node.Settle(), "") << "none is kept";
}

TEST(StandbyPoolForksTest, AStartForWhichAllWaitBeginsAtOnce) {
  Driver node = Forking(0);
  node.Step(kStartComing);
  node.Step(kForks);
  node.Step(StandbyPool::StandbyWaiting{0});
  node.Step(StandbyPool::StandbyWaiting{1});
  EXPECT_EQ(node.Step(kStartComing), "begin");
}

TEST(StandbyPoolForksTest, StandbysAreForkedTogetherOnceAllWorkersHaveMadeAStep) {
  Driver node = Forking(2);
  node.Step(kForks);
  EXPECT_EQ(node.Settle(), "start 0 for rank 0, start 1 for rank 1");
}

TEST(StandbyPoolForksTest, WorkersThatStartHaveAStandbyEachAlsoWhereFewerAreKept) {
  Driver node = Forking(1);
  node.Step(kForks);
  node.Settle();
  node.Step(StandbyPool::StandbyWaiting{0});
  node.Step(StandbyPool::GenerationEnded{});
  EXPECT_EQ(node.Step(kStartComing), "start 1 for rank 1");
}

// Break: leave out the limit. Then a fork server that never answers holds up the job for ever.
TEST(StandbyPoolForksTest, AStartWaitsForAForkServerNoLongerThanItsLimit) {
  Driver node = Forking(0);
  node.Step(kStartComing);
  EXPECT_EQ(node.Advance(seconds(20) - Duration(1)), "");
  EXPECT_EQ(node.Advance(Duration(1)), "begin");
  EXPECT_EQ(node.Advance(minutes(60)), "") << "once";
}

// Break: leave kNever out of OnForksChanged(). Then the start waits for its limit.
TEST(StandbyPoolForksTest, WithoutAForkServerAStartBeginsAndNothingIsKept) {
  Driver node = Forking(2);
  node.Step(kStartComing);
  EXPECT_EQ(node.Step(kNeverForks), "begin");
  EXPECT_EQ(node.pool().state(), StandbyPoolState::kGivenUp);
  EXPECT_EQ(node.Settle(), "");
  node.Step(StandbyPool::GenerationEnded{});
  EXPECT_EQ(node.Step(kStartComing), "begin");
}

// Break: do not end standbys that are forks. Then NodeCleared kills a fork, and nobody asks for
// another one.
TEST(StandbyPoolForksTest, ForksOnTheirWayWhenAGenerationEndsAreAskedForAgain) {
  Driver node = Forking(2);
  node.Step(kForks);
  node.Settle();
  EXPECT_EQ(node.Step(StandbyPool::GenerationEnded{}), "end 0, end 1");
  EXPECT_EQ(node.Step(kStartComing), "start 2 for rank 0, start 3 for rank 1");
}

// Break: count the lost forks as early ends.
TEST(StandbyPoolForksTest, ForksThatAreLostWithTheirServerAreAskedForAgain) {
  Driver node = Forking(0);
  for (const int first : {0, 2, 4, 6, 8}) {
    node.Step(kStartComing);
    EXPECT_EQ(node.Step(kForks),
              absl::StrCat("start ", first, " for rank 0, start ", first + 1, " for rank 1"));
    EXPECT_EQ(node.Step(kForksLater), "");
  }
}

TEST(StandbyPoolForksTest, WhatWaitsOutlivesItsServer) {
  Driver node = Forking(2);
  node.Step(kForks);
  node.Settle();
  node.Step(StandbyPool::StandbyWaiting{0});
  EXPECT_EQ(node.Step(kForksLater), "");
  EXPECT_EQ(node.Advance(minutes(60)), "") << "1 has no limit of its own: it is forgotten";
  EXPECT_EQ(node.pool().Take(LocalRank{0}), 0);
  EXPECT_EQ(node.pool().Take(LocalRank{1}), std::nullopt);
}

TEST(StandbyPoolForksTest, AStartDoesNotWaitForOneThatEndsAtOnce) {
  Driver node = Forking(0);
  node.Step(kForks);
  node.Step(kStartComing);
  EXPECT_EQ(node.Step(StandbyPool::StandbyEnded{0, "by SIGSEGV"}), "begin");
}

TEST(StandbyPoolForksTest, NoStartBeginsOnceTheJobHasEnded) {
  Driver node = Forking(0);
  node.Step(kForks);
  node.Step(kStartComing);
  node.Step(StandbyPool::StandbyWaiting{0});
  EXPECT_EQ(node.Step(StandbyPool::JobEnded{}), "end 0, end 1");
  EXPECT_EQ(node.Step(StandbyPool::StandbyWaiting{1}), "");
  EXPECT_EQ(node.pool().NextDeadline(), std::nullopt);
}

struct State {
  const char* name;
  std::function<void(Driver&)> reach;
};

struct Event {
  const char* name;
  StandbyPool::Event event;
};

TEST(StandbyPoolCellsTest, EveryStateAndEventDoesWhatIsWrittenDown) {
  const std::vector<State> states = {
      {"Idle", [](Driver&) {}},
      {"Idle, one waits",
       [](Driver& node) {
         node.Settle();
         node.Step(StandbyPool::StandbyWaiting{0});
         node.Step(StandbyPool::GenerationEnded{});
       }},
      {"Settling",
       [](Driver& node) {
         node.Step(StandbyPool::GenerationStarted{});
         node.Step(StandbyPool::WorkerCanStandBy{});
         node.Step(StandbyPool::WorkerStepped{LocalRank{0}});
       }},
      {"Filling, not able",
       [](Driver& node) {
         node.Step(StandbyPool::GenerationStarted{});
         node.Advance(seconds(3));
       }},
      {"Filling, one loads", [](Driver& node) { node.Settle(); }},
      {"Filling, one waits, one loads",
       [](Driver& node) {
         node.Settle();
         node.Step(StandbyPool::StandbyWaiting{0});
       }},
      {"Filling, two wait", [](Driver& node) { node.Fill(); }},
      {"GivenUp, one waits",
       [](Driver& node) {
         node.Settle();
         node.Step(StandbyPool::StandbyWaiting{0});
         node.Advance(minutes(5));
       }},
      {"Closed",
       [](Driver& node) {
         node.Fill();
         node.Step(StandbyPool::JobEnded{});
       }},
  };
  const std::vector<Event> events = {
      {"GenerationStarted", StandbyPool::GenerationStarted{}},
      {"WorkerCanStandBy", StandbyPool::WorkerCanStandBy{}},
      {"WorkerStepped, rank 1", StandbyPool::WorkerStepped{LocalRank{1}}},
      {"GenerationEnded", StandbyPool::GenerationEnded{}},
      {"StandbyWaiting 0", StandbyPool::StandbyWaiting{0}},
      {"StandbyWaiting of none", StandbyPool::StandbyWaiting{9}},
      {"StandbyEnded 0", StandbyPool::StandbyEnded{0, "exited with code 1"}},
      {"StandbyEnded of none", StandbyPool::StandbyEnded{9, "exited with code 1"}},
      {"JobEnded", StandbyPool::JobEnded{}},
      {"Tick", StandbyPool::Tick{}},
  };
  std::string text = "# state × event → next state: actions. Two workers, two standbys wanted.\n";
  for (const State& state : states) {
    absl::StrAppend(&text, "\n", state.name, "\n");
    for (const Event& event : events) {
      Driver node;
      state.reach(node);
      const std::string said = node.Step(event.event);
      absl::StrAppend(&text, "  ", event.name, " -> ", ToString(node.pool().state()),
                      said.empty() ? "" : ": ", said, "\n");
    }
  }
  ExpectGolden("tests/data/cells/standby_pool.txt", text);
}

}  // namespace standby_pool_test
}  // namespace ddprun
