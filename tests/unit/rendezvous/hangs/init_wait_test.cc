// Which ranks have not reached ddp::init().
#include "rendezvous/hangs/init_wait.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace ddprun {
namespace init_wait_test {

using std::chrono::seconds;

StillNode NodeOf(int rank, std::string host, NodeProgress progress) {
  return {Rank{rank}, std::move(host), NodeRank{rank}, std::make_shared<NodeProgress>(progress)};
}

TEST(InitWaitTest, TheMissingRanksAreNamedAndWhereTheLowestIs) {
  NodeProgress waits;
  waits.still_workers = {{LocalRank{0}, 41, seconds(61), std::nullopt, "init"},
                         {LocalRank{1}, 42, seconds(5), std::nullopt, "restore"}};
  NodeProgress loads;
  loads.silent_workers = {{LocalRank{0}, 43, seconds(71)}, {LocalRank{1}, 44, seconds(71)}};
  loads.silent_workers[0].waits_for = "read(/data/x)";
  NodeProgress also = loads;
  also.silent_workers.pop_back();
  const auto wait =
      InitWaitOf({NodeOf(0, "n1", waits), NodeOf(2, "n2", loads), NodeOf(4, "n3", also)});
  ASSERT_TRUE(wait.has_value());
  EXPECT_EQ(wait->longest, seconds(61));
  EXPECT_EQ(Describe(*wait, 4),
            "1 of 4 ranks are in init(); missing 2, 3 on n2 and 4 on n3: rank 2 (pid 43) started "
            "71.0 s ago, now in read(/data/x)");
}

TEST(InitWaitTest, NoneWhereNobodyWaitsOrNobodyIsMissing) {
  NodeProgress waits;
  waits.still_workers = {{LocalRank{0}, 41, seconds(61), std::nullopt, "init"}};
  EXPECT_FALSE(InitWaitOf({NodeOf(0, "n1", waits)}).has_value());
  NodeProgress loads;
  loads.silent_workers = {{LocalRank{0}, 43, seconds(71)}};
  EXPECT_FALSE(InitWaitOf({NodeOf(0, "n1", loads)}).has_value());
  EXPECT_FALSE(InitWaitOf({}).has_value());
}

}  // namespace init_wait_test
}  // namespace ddprun
