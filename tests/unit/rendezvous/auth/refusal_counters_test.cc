#include "rendezvous/auth/refusal_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ddprun {
namespace refusal_counters_test {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr RefusalCounters::Clock::time_point kNow{std::chrono::hours(1)};

TEST(RefusalCountersTest, CountsByReason) {
  RefusalCounters counters;
  counters.Count(refusal::kNoProof, "a", kNow);
  counters.Count(refusal::kNoJoin, "b", kNow);
  counters.Count(refusal::kNoProof, "c", kNow);
  EXPECT_THAT(counters.Snapshot(), ElementsAre(Pair("no_join", 1), Pair("no_proof", 2)));
}

TEST(RefusalCountersTest, AFloodIsLoggedAsAFewLines) {
  std::vector<std::string> lines;
  RefusalCounters counters([&](const std::string& line) { lines.push_back(line); });
  for (int i = 0; i < 100'000; ++i) counters.Count(refusal::kNoProof, "ipv4:10.0.0.7:4: why", kNow);
  EXPECT_THAT(lines, SizeIs(17));
  EXPECT_EQ(lines.front(), "refused ipv4:10.0.0.7:4: why (no_proof, number 1)");
  EXPECT_EQ(lines.back(), "refused ipv4:10.0.0.7:4: why (no_proof, number 65536)");
  counters.Count(refusal::kNoProof, "late", kNow + std::chrono::minutes(1));
  EXPECT_EQ(lines.back(), "refused late (no_proof, number 100001)");
  counters.Count(refusal::kNoJoin, "another", kNow);
  EXPECT_EQ(lines.back(), "refused another (no_join, number 1)");
}

}  // namespace refusal_counters_test
}  // namespace ddprun
