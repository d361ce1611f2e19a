#include "worker/src/transfer/state_route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ddp::internal {
namespace state_route_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// `per_node` ranks on each node; the ranks of the source's node have the file.
std::vector<RankPlace> Nodes(int nodes, int per_node, int source) {
  std::vector<RankPlace> ranks;
  for (int node = 0; node < nodes; ++node) {
    for (int i = 0; i < per_node; ++i) ranks.push_back({node, node == source / per_node, true});
  }
  return ranks;
}

TEST(StateRouteTest, RanksOfTheSourcesNodeReadTheFile) {
  const auto ranks = Nodes(1, 3, 0);
  for (int rank = 0; rank < 3; ++rank) {
    const StateRoute route = MakeStateRoute(ranks, 0, rank);
    EXPECT_TRUE(route.has_file);
    EXPECT_THAT(route.children, IsEmpty());
    EXPECT_THAT(route.followers, IsEmpty());
  }
}

TEST(StateRouteTest, OneCopyCrossesToTheOtherNodeWhichSharesIt) {
  const auto ranks = Nodes(2, 3, 4);  // the source is rank 4, on node 1
  EXPECT_THAT(MakeStateRoute(ranks, 4, 4).children, ElementsAre(0));
  const StateRoute leader = MakeStateRoute(ranks, 4, 0);
  EXPECT_EQ(leader.parent, 4);
  EXPECT_EQ(leader.leader, 0);
  EXPECT_THAT(leader.followers, ElementsAre(1, 2));
  for (const int follower : {1, 2}) {
    const StateRoute route = MakeStateRoute(ranks, 4, follower);
    EXPECT_EQ(route.leader, 0);
    EXPECT_EQ(route.parent, -1);
    EXPECT_THAT(route.children, IsEmpty());
  }
  EXPECT_TRUE(MakeStateRoute(ranks, 4, 3).has_file);
}

TEST(StateRouteTest, ANodeThatCannotShareGetsACopyForEachRank) {
  auto ranks = Nodes(2, 2, 0);
  ranks[2].can_share = ranks[3].can_share = false;
  EXPECT_THAT(MakeStateRoute(ranks, 0, 0).children, ElementsAre(2, 3));
  EXPECT_EQ(MakeStateRoute(ranks, 0, 3).leader, 3);
}

TEST(StateRouteTest, ARankOfTheSourcesNodeThatCannotReadTheFileGetsItToo) {
  auto ranks = Nodes(1, 3, 0);
  ranks[2].has_file = false;
  EXPECT_THAT(MakeStateRoute(ranks, 0, 0).children, ElementsAre(2));
  EXPECT_EQ(MakeStateRoute(ranks, 0, 2).parent, 0);
}

// For every shape of the job: each rank gets the state exactly once, parents and children know each
// other, and no rank sends more than two copies.
TEST(StateRouteTest, ReachesEveryRankOnce) {
  for (int nodes = 1; nodes <= 9; ++nodes) {
    for (int per_node = 1; per_node <= 3; ++per_node) {
      for (int source = 0; source < nodes * per_node; ++source) {
        for (int odd = 0; odd < nodes; ++odd) {  // a node that cannot share
          auto ranks = Nodes(nodes, per_node, source);
          for (RankPlace& rank : ranks) rank.can_share = rank.node != odd;
          std::vector<int> got(ranks.size(), 0);
          int depth = 0;
          for (int rank = 0; rank < nodes * per_node; ++rank) {
            const StateRoute route = MakeStateRoute(ranks, source, rank);
            ASSERT_LE(route.children.size(), 2u);
            if (route.has_file) ++got[static_cast<std::size_t>(rank)];
            for (const int child : route.children) {
              ++got[static_cast<std::size_t>(child)];
              ASSERT_EQ(MakeStateRoute(ranks, source, child).parent, rank);
            }
            for (const int follower : route.followers) {
              ++got[static_cast<std::size_t>(follower)];
              ASSERT_EQ(MakeStateRoute(ranks, source, follower).leader, rank);
            }
            int hops = 0;
            for (int at = rank; at != source && hops < 100; ++hops) {
              const StateRoute way = MakeStateRoute(ranks, source, at);
              if (way.has_file) break;
              at = way.leader != at ? way.leader : way.parent;
            }
            depth = std::max(depth, hops);
          }
          ASSERT_THAT(got, ::testing::Each(1)) << nodes << "x" << per_node << " from " << source;
          ASSERT_LE(depth, 6);
        }
      }
    }
  }
}

}  // namespace state_route_test
}  // namespace ddp::internal
