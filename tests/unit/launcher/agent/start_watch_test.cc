#include "launcher/agent/start_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ddprun {
namespace start_watch_test {

using std::chrono::seconds;

// As in /proc/net/tcp. 733C is port 29500.
constexpr char kConnections[] =
    R"(  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1
   1: 0100007F:A1B2 0100007F:733C 01 00000000:00000000 00:00000000 00000000  1000        0 2 1
   2: 0100007F:733C 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000  1000        0 3 1
   3: 0100007F:A1B4 0100007F:733C 06 00000000:00000000 00:00000000 00000000  1000        0 4 1
   4: 0100007F:A1B6 0100007F:733D 01 00000000:00000000 00:00000000 00000000  1000        0 5 1
)";

TEST(StartWatchTest, OnlyEstablishedConnectionsToAPortCount) {
  EXPECT_EQ(CountConnectionsTo(29500, kConnections), 1);
  EXPECT_EQ(CountConnectionsTo(29501, kConnections), 1);
  EXPECT_EQ(CountConnectionsTo(29502, kConnections), 0);
  EXPECT_EQ(CountConnectionsTo(29500,
                               "  sl  local_address remote_address st\n"
                               "   0: 00000000000000000000000001000000:A1B2 "
                               "00000000000000000000000001000000:733C 01\n"),
            1);
  EXPECT_EQ(CountConnectionsTo(29500, "\n 0: 1 2\n: : : 01"), 0);
}

TEST(StartWatchTest, CpuTimeIsTheProcessesAndItsChildrens) {
  EXPECT_EQ(CpuTicks("42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0 5"), 110);
  EXPECT_EQ(CpuTicks(""), 0);
  EXPECT_EQ(CpuTicks("42 (x) S 1"), 0);
}

class StartWatchLoopTest : public testing::Test {
 protected:
  StartWatch Watch(StartWatch::Pids pids) {
    return StartWatch(&loop_, 2, std::move(pids), [this](Generation generation, Duration) {
      measured_.push_back(generation.value);
      loop_.Quit();
    });
  }

  EventLoop loop_;
  std::vector<int> measured_;
};

TEST_F(StartWatchLoopTest, AStartIsOverWhenEveryWorkerHasToldSo) {
  StartWatch watch = Watch([] { return std::vector<pid_t>(); });
  watch.OnAtWork(LocalRank{0});  // ignored: no start has begun
  watch.Begin(Generation{3}, 1, false);
  watch.OnAtWork(LocalRank{0});
  watch.OnAtWork(LocalRank{0});
  EXPECT_TRUE(measured_.empty());
  watch.OnAtWork(LocalRank{1});
  watch.OnAtWork(LocalRank{1});
  EXPECT_EQ(measured_, std::vector<int>({3}));
}

TEST_F(StartWatchLoopTest, OrWhenTheWorkersHaveUsedAsMuchCpuTimeAsInTheLastOne) {
  StartWatch watch = Watch([] { return std::vector<pid_t>({getpid()}); });
  watch.Begin(Generation{0}, 1, false);
  for (int i = 0; i < 2; ++i) watch.OnAtWork(LocalRank{i});
  loop_.Quit();
  watch.Begin(Generation{1}, 1, false);  // this process has used that much CPU time already
  loop_.Run();
  loop_.Run();
  EXPECT_EQ(measured_, std::vector<int>({0, 1}));
}

TEST_F(StartWatchLoopTest, OneThatWasCutShortIsNotMeasured) {
  StartWatch watch = Watch([] { return std::vector<pid_t>(); });
  watch.Begin(Generation{0}, 1, false);
  watch.End();
  for (int i = 0; i < 2; ++i) watch.OnAtWork(LocalRank{i});
  EXPECT_TRUE(measured_.empty());
}

// A script that reports nothing, and has no other rank to connect to.
TEST(StartWatchOfOneWorkerTest, AStartThatShowsNothingHasALength) {
  EventLoop loop;
  std::vector<Duration> measured;
  StartWatch watch(
      &loop, 1, [] { return std::vector<pid_t>(); },
      [&](Generation, Duration took) {
        measured.push_back(took);
        loop.Quit();
      },
      std::chrono::milliseconds(50));
  watch.Begin(Generation{0}, 1, /*alone=*/true);
  loop.Run();
  EXPECT_EQ(measured, std::vector<Duration>({std::chrono::milliseconds(50)}));
  watch.OnAtWork(LocalRank{0});  // the report comes late
  ASSERT_EQ(measured.size(), 2u);
  EXPECT_GE(measured[1], std::chrono::milliseconds(100)) << "the first look";
}

}  // namespace start_watch_test
}  // namespace ddprun
