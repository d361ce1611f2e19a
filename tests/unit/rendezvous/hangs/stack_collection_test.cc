// Tests StackCollection: which nodes are asked for stacks, and which have answered.
#include "rendezvous/hangs/stack_collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace stack_collection_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TimePoint kStart{std::chrono::hours(1)};
constexpr Duration kPause = std::chrono::milliseconds(10);

// Node `i`, with two ranks, on host "ni".
StackCollection Asked(std::uint32_t nodes) {
  StackCollection stacks(StackRequestId{7}, kStart + std::chrono::seconds(5),
                         {.at_once = 2, .pause = kPause, .most_waiting = 3});
  for (std::uint32_t node = 1; node <= nodes; ++node) {
    stacks.Await(AgentId{node}, absl::StrCat("n", node), {2 * node - 2, 2 * node - 1});
  }
  return stacks;
}

TEST(StackCollectionTest, IsCompleteWhenEveryNodeHasAnsweredOrIsGivenUp) {
  StackCollection stacks = Asked(3);
  EXPECT_FALSE(stacks.complete());
  const StackCollection::Asked answered = stacks.Answered(AgentId{3});
  EXPECT_EQ(answered.host, "n3");
  EXPECT_EQ(answered.ranks, (RankRange{4, 5}));
  stacks.Answered(AgentId{1});
  EXPECT_FALSE(stacks.complete());
  EXPECT_FALSE(stacks.Awaits(AgentId{1}));
  EXPECT_THAT(stacks.Missing(), ElementsAre("n2"));
  stacks.GiveUp(AgentId{2});
  stacks.GiveUp(AgentId{9});
  EXPECT_TRUE(stacks.complete());
  EXPECT_THAT(stacks.Missing(), ElementsAre("n2"));
  stacks.Refuse("n1");
  EXPECT_THAT(stacks.Missing(), ElementsAre("n1", "n2"));
}

TEST(StackCollectionTest, AsksAFewAtATime) {
  StackCollection stacks = Asked(5);
  EXPECT_THAT(stacks.TakeToAsk(kStart), ElementsAre(AgentId{1}, AgentId{2}));
  EXPECT_THAT(stacks.TakeToAsk(kStart), IsEmpty());
  EXPECT_EQ(stacks.NextDeadline(), kStart + kPause);
  EXPECT_THAT(stacks.TakeToAsk(kStart + kPause), ElementsAre(AgentId{3}, AgentId{4}));
  EXPECT_THAT(stacks.TakeToAsk(kStart + 2 * kPause), ElementsAre(AgentId{5}));
  EXPECT_EQ(stacks.NextDeadline(), stacks.deadline());
}

// Seen red when only the pace limited the requests: memory grew with the answers that were not
// merged yet.
TEST(StackCollectionTest, AsksNobodyWhileManyAnswersWaitToBeMerged) {
  StackCollection stacks = Asked(6);
  stacks.TakeToAsk(kStart);
  stacks.TakeToAsk(kStart + kPause);
  for (const std::uint64_t node : {1, 2, 3}) stacks.Answered(AgentId{node});
  EXPECT_THAT(stacks.TakeToAsk(kStart + 2 * kPause), IsEmpty());
  EXPECT_EQ(stacks.NextDeadline(), kStart + 3 * kPause);
  stacks.Merged(1);
  EXPECT_THAT(stacks.TakeToAsk(kStart + 3 * kPause), SizeIs(2));
}

}  // namespace stack_collection_test
}  // namespace ddprun
