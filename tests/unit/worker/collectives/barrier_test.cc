// Tests barriers, and sections that one rank enters first.
#include "worker/src/collectives/barrier.h"

#include <ddp/ddp.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "worker/src/base/in_words.h"

namespace ddp {
namespace barrier_test {

using internal::BarrierWay;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::InRank;
using test::RankResult;
using test::RunRanks;
using test::StartedRanks;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr BarrierWay kWays[] = {BarrierWay::kGroup, BarrierWay::kStore};

// The text of the barrier's error, or "passed".
std::string Wait(const Context& ctx, BarrierWay way, milliseconds timeout) {
  try {
    internal::WaitForAll(ctx, way, timeout);
  } catch (const CollectiveError& e) {
    return e.what();
  }
  return "passed";
}

// Ends a rank whose group is no longer usable.
[[noreturn]] void End() {
  std::cout << std::flush;
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

// Blocks until these processes, which need not be children, have ended.
void WaitForEndOf(const std::vector<std::int64_t>& pids) {
  for (const std::int64_t pid : pids) {
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
    pollfd ended = {pidfd, POLLIN, 0};
    if (pidfd >= 0) poll(&ended, 1, -1);
  }
}

std::vector<std::int64_t> PidsOfAll(const Context& ctx) {
  std::vector<std::int64_t> pids;
  for (const std::string& pid : all_gather_object(ctx, std::to_string(getpid()))) {
    pids.push_back(std::stoll(pid));
  }
  return pids;
}

// A counter shared by all ranks.
std::int64_t Count(const Context& ctx, std::int64_t more) {
  return ctx.store()->add("count", more);
}

TEST(BarrierTest, NobodyPassesBeforeAllHaveCome) {
  if (StartedRanks(4)) return;
  const Context ctx = init();
  for (const BarrierWay way : kWays) {
    const std::int64_t before = all_reduce_sum(ctx, ctx.rank() == 0 ? Count(ctx, 0) : 0);
    for (int round = 1; round <= 50; ++round) {
      Count(ctx, 1);
      ASSERT_EQ(Wait(ctx, way, milliseconds(20'000)), "passed");
      ASSERT_GE(Count(ctx, 0), before + 4 * round);
    }
  }
  barrier(ctx);
}

// The rank that hosts the store must not end before the others have passed the barrier.
TEST(BarrierTest, EveryRankMayEndRightAfterIt) {
  for (int round = 0; round < (InRank() ? 1 : 3); ++round) {
    if (StartedRanks(4)) continue;
    const Context ctx = init();
    barrier(ctx);  // all are connected
    EXPECT_EQ(Wait(ctx, BarrierWay::kStore, milliseconds(20'000)), "passed");
    End();
  }
}

TEST(BarrierTest, TheStoreKeepsNothingOfBarriersThatAreOver) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  internal::WaitForAll(ctx, BarrierWay::kStore, milliseconds(20'000));
  barrier(ctx);
  const std::int64_t keys = ctx.store()->getNumKeys();
  barrier(ctx);
  for (int i = 0; i < 10; ++i) {
    internal::WaitForAll(ctx, BarrierWay::kStore, milliseconds(20'000));
  }
  barrier(ctx);
  EXPECT_EQ(ctx.store()->getNumKeys(), keys);
  barrier(ctx);
}

// Rank 3 arrives after the others have given up and ended. Rank 0 hosts the store, so the other
// ranks' texts depend on whether rank 0 still runs: rank 0 gives up first.
void ARankThatDoesNotCome(BarrierWay way) {
  const Context ctx = init();
  const std::vector<std::int64_t> pids = PidsOfAll(ctx);
  Wait(ctx, way, milliseconds(20'000));  // earlier barriers do not count
  if (ctx.rank() == 3) {
    WaitForEndOf({pids[0], pids[1], pids[2]});
    EXPECT_NE(Wait(ctx, way, milliseconds(20'000)), "passed");
    End();
  }
  for (const char* other : {"1", "2"}) {  // the other ranks' second barrier
    const std::string key = std::string("ddp/barrier/arrivals/") + other;
    while (ctx.rank() == 0 && ctx.store()->add(key, 0) < 2) std::this_thread::yield();
  }
  const auto start = steady_clock::now();
  const std::string text = Wait(ctx, way, milliseconds(ctx.rank() == 0 ? 500 : 5000));
  EXPECT_LT(steady_clock::now() - start, milliseconds(15'000));
  if (ctx.rank() == 0) {
    EXPECT_THAT(text, ::testing::StartsWith(
                          "barrier: rank 3 has not come within 0.5 s; ranks 0, 1, 2 wait"));
  } else {
    // Rank 0 has ended, and the store with it. This rank notices that at once, or reaches its own
    // timeout.
    EXPECT_THAT(text, HasSubstr("who is missing is not known, because rank 0"));
  }
  End();
}

TEST(BarrierTest, TheMissingRankIsNamedWhenTheTimeIsOver) {
  if (StartedRanks(4)) return;
  ARankThatDoesNotCome(BarrierWay::kGroup);
}

TEST(BarrierTest, TheMissingRankIsNamedWhenTheTimeIsOverWithoutTheGroup) {
  if (StartedRanks(4)) return;
  ARankThatDoesNotCome(BarrierWay::kStore);
}

TEST(BarrierTest, AMissingRank0IsNamedToo) {
  for (const BarrierWay way : kWays) {
    const char* const name = way == BarrierWay::kGroup ? "group" : "store";
    if (InRank() && std::string(std::getenv("WAY")) != name) continue;
    if (StartedRanks(3, {{"WAY", name}})) continue;
    const Context ctx = init();
    const std::vector<std::int64_t> pids = PidsOfAll(ctx);
    barrier(ctx);
    if (ctx.rank() == 0) {
      WaitForEndOf({pids[1], pids[2]});
    } else {
      // With kGroup, the first rank that gives up also ends the wait of the other.
      EXPECT_THAT(Wait(ctx, way, milliseconds(500)),
                  MatchesRegex("barrier:? \\(?(rank 0 has|ranks 0, [12] have) not come within .*"));
    }
    End();
  }
}

TEST(BarrierTest, ARankThatDiesEndsTheOthersAtOnce) {
  if (InRank()) {
    const Context ctx = init();
    barrier(ctx);
    if (ctx.rank() == 2) kill(getpid(), SIGKILL);
    const std::string text = Wait(ctx, BarrierWay::kGroup, milliseconds(50'000));
    if (ctx.rank() == 0) {
      EXPECT_THAT(text, AnyOf(HasSubstr("barrier: rank 2 has not come within"),
                              HasSubstr("barrier: ranks 1, 2 have not come within")));
    }
    EXPECT_THAT(text, HasSubstr("Rank 2 has ended without a word"));
    End();
  }
  const auto start = steady_clock::now();
  const std::vector<RankResult> ranks = RunRanks({3, {}, {}});
  EXPECT_LT(steady_clock::now() - start, milliseconds(30'000));
  EXPECT_EQ(ranks[2].signal, SIGKILL);
  EXPECT_EQ(ranks[0].exit_code, 0) << ranks[0].out << ranks[0].err;
  EXPECT_EQ(ranks[1].exit_code, 0) << ranks[1].out << ranks[1].err;
}

TEST(RankListTest, NamesRanksForPeople) {
  EXPECT_EQ(internal::RankList({}), "no rank");
  EXPECT_EQ(internal::RankList({3}), "rank 3");
  EXPECT_EQ(internal::RankList({0, 1, 2}), "ranks 0, 1, 2");
  std::vector<int> many(20);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_EQ(internal::RankList(many),
            "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 4 more");
}

// Every rank writes its letter into one file, in one write.
struct Diary {
  std::string path = std::getenv("DIARY");
  void Write(const std::string& text) const {
    const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
    EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(fd);
  }
};

TEST(MainFirstTest, TheMainRankIsThroughBeforeAnyOtherBegins) {
  const ddprun::TempDir folder;
  if (StartedRanks(4, {{"DIARY", folder / "diary"}})) {
    const std::string diary = test::ReadFile(folder / "diary");
    ASSERT_EQ(diary.size(), 2u * 2 * 10 * 4);
    for (std::size_t at = 0; at < diary.size(); at += 8) {
      EXPECT_EQ(diary.substr(at, 2), "0.") << diary;
    }
    return;
  }
  const Context ctx = init();
  const Diary diary;
  const auto write = [&] {
    diary.Write(std::to_string(ctx.rank()));
    if (ctx.rank() == 0) diary.Write(".");
    if (ctx.rank() != 0) diary.Write(",");
  };
  for (int round = 0; round < 10; ++round) {
    main_first(ctx, write);
    barrier(ctx);
    {
      const MainFirst section(ctx);
      write();
    }
    barrier(ctx);
  }
}

TEST(MainFirstTest, LocalRank0GoesFirstOnEachNode) {
  const ddprun::TempDir folder;
  if (StartedRanks(4, {{"DIARY", folder / "diary"}})) {
    const std::string diary = test::ReadFile(folder / "diary");
    EXPECT_THAT(diary.substr(0, 2), AnyOf("02", "20"));
    EXPECT_THAT(diary.substr(2), AnyOf("13", "31"));
    return;
  }
  const int rank = std::stoi(std::getenv("RANK"));  // two nodes of two
  setenv("LOCAL_RANK", std::to_string(rank % 2).c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  const Context ctx = init();
  const Diary diary;
  main_first(
      ctx, [&] { diary.Write(std::to_string(ctx.rank())); }, Main::kNode);
  barrier(ctx);
}

TEST(MainFirstTest, AnErrorOfTheMainRankIsItsOwnThereAndAgreedElsewhere) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  bool ran = false;
  const auto body = [&] {
    ran = true;
    throw std::out_of_range("disk full");
  };
  try {
    main_first(ctx, body);
    ADD_FAILURE() << "expected an error";
  } catch (const std::out_of_range&) {
    EXPECT_EQ(ctx.rank(), 0);
  } catch (const AgreedError& e) {
    EXPECT_NE(ctx.rank(), 0);
    EXPECT_STREQ(e.what(), "rank 0: disk full");
  }
  EXPECT_EQ(ran, ctx.rank() == 0);

  ran = false;
  try {
    const MainFirst section(ctx);
    body();
  } catch (const std::out_of_range&) {
    EXPECT_EQ(ctx.rank(), 0);
  } catch (const AgreedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 0: left its MainFirst section by an exception"));
  }
  EXPECT_EQ(ran, ctx.rank() == 0);
  barrier(ctx);
}

TEST(MainFirstTest, AnErrorOfAnotherRankIsItsOwn) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto body = [&] {
    if (ctx.rank() == 1) throw std::out_of_range("disk full");
  };
  if (ctx.rank() == 1) {
    EXPECT_THROW(main_first(ctx, body), std::out_of_range);
  } else {
    main_first(ctx, body);
  }
  barrier(ctx);
}

TEST(LogTest, OnlyRank0Speaks) {
  if (InRank()) {
    const Context ctx = init();
    log_rank0(ctx, "rank " + std::to_string(ctx.rank()) + " starts");
    on_rank0(ctx, std::cerr) << "loss " << 0.5 << std::endl;
    barrier(ctx);
    End();
  }
  const std::vector<RankResult> ranks = RunRanks({3, {}, {}});
  EXPECT_EQ(ranks[0].err, "rank 0 starts\nloss 0.5\n");
  EXPECT_EQ(ranks[1].err + ranks[2].err, "");
}

}  // namespace barrier_test
}  // namespace ddp
