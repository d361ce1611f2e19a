#include "rendezvous/service/job/logs/kept_logs.h"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace kept_logs_test {

RootCause CauseOf(int generation, int rank, int victims = 0) {
  RootCause cause;
  cause.failure.generation = Generation{generation};
  cause.failure.exit.rank = Rank{rank};
  for (int i = 0; i < victims; ++i) {
    WorkerFailure victim;
    victim.exit.rank = Rank{100 + i};
    cause.victims.push_back(victim);
  }
  return cause;
}

LogSource Stderr(int generation, int rank) {
  return {Generation{generation}, Rank{rank}, LogStream::kStderr};
}

TEST(KeptLogsTest, TheRootCauseComesFirstAndVictimsUpToABound) {
  KeptLogs kept;
  const auto ranks = kept.Begin(CauseOf(3, 7, 40));
  EXPECT_EQ(ranks.size(), KeptLogs::kMaxRanks);
  EXPECT_EQ(ranks.front(), Rank{7});
  EXPECT_EQ(ranks[1], Rank{100});
  EXPECT_EQ(kept.generation(), Generation{3});
}

TEST(KeptLogsTest, ALostNodeHasNoWorkerToKeep) {
  RootCause lost = CauseOf(3, 0, 1);
  lost.kind = RootCause::Kind::kNodeLost;
  KeptLogs kept;
  EXPECT_EQ(kept.Begin(lost), std::vector<Rank>{Rank{100}});
}

TEST(KeptLogsTest, TheLastBytesOfAFileAreKept) {
  KeptLogs kept;
  kept.Begin(CauseOf(3, 7));
  kept.Add(Stderr(3, 7), std::string(KeptLogs::kMaxBytes, 'a'));
  kept.Add(Stderr(3, 7), "end");
  const auto found = kept.Find(Stderr(3, 7), {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text.size(), KeptLogs::kMaxBytes);
  EXPECT_TRUE(found->text.ends_with("aend"));
  EXPECT_FALSE(found->whole);
  EXPECT_EQ(kept.bytes(), KeptLogs::kMaxBytes);
  EXPECT_EQ(kept.Find(Stderr(3, 8), {}), std::nullopt);
}

TEST(KeptLogsTest, ALaterGenerationTakesThePlace) {
  KeptLogs kept;
  kept.Begin(CauseOf(3, 7));
  kept.Add(Stderr(3, 7), "old");
  kept.Begin(CauseOf(4, 1));
  kept.Add(Stderr(3, 7), "late");
  EXPECT_EQ(kept.bytes(), 0u);
  EXPECT_EQ(kept.Find(Stderr(3, 7), {}), std::nullopt);
}

TEST(KeptLogsTest, AsManyLinesAreShownAsAreWanted) {
  KeptLogs kept;
  kept.Begin(CauseOf(3, 7));
  kept.Add(Stderr(3, 7), "\none\n\ntwo\nunfinished");
  const auto last = [&](std::int64_t lines) {
    return std::string(kept.Find(Stderr(3, 7), {.lines = lines})->text);
  };
  EXPECT_EQ(last(0), "");
  EXPECT_EQ(last(1), "unfinished");
  EXPECT_EQ(last(2), "two\nunfinished");
  EXPECT_EQ(last(3), "\ntwo\nunfinished");
  EXPECT_EQ(last(4), "one\n\ntwo\nunfinished");
  EXPECT_EQ(last(5), "\none\n\ntwo\nunfinished");
  EXPECT_EQ(last(6), "\none\n\ntwo\nunfinished");
}

// A line that begins in the kept part is whole, however long the file was.
TEST(KeptLogsTest, LinesThatAreKeptAreNotMissed) {
  KeptLogs kept;
  kept.Begin(CauseOf(3, 7));
  kept.Add(Stderr(3, 7), std::string(KeptLogs::kMaxBytes, 'a') + "\nend\n");
  EXPECT_TRUE(kept.Find(Stderr(3, 7), {.lines = 1})->whole);
  EXPECT_EQ(kept.Find(Stderr(3, 7), {.lines = 1})->text, "end\n");
  EXPECT_FALSE(kept.Find(Stderr(3, 7), {.lines = 2})->whole);
}

}  // namespace kept_logs_test
}  // namespace ddprun
