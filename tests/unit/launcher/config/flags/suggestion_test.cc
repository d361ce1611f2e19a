#include "launcher/config/flags/suggestion.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ddprun {
namespace suggestion_test {

const std::vector<std::string> kNames = {"nodes", "nproc_per_node", "role", "report"};

TEST(SuggestionTest, FindsTheNameBehindATypingError) {
  EXPECT_EQ(NearestName("ndoes", kNames), "nodes");
  EXPECT_EQ(NearestName("nnodes", kNames), "nodes");
  EXPECT_EQ(NearestName("nproc_pernode", kNames), "nproc_per_node");
  EXPECT_EQ(NearestName("rols", kNames), "role");
}

TEST(SuggestionTest, FindsTheNameBehindAnAbbreviation) {
  EXPECT_EQ(NearestName("nproc", kNames), "nproc_per_node");
}

TEST(SuggestionTest, SuggestsNothingFarAway) {
  EXPECT_EQ(NearestName("zebra", kNames), "");
  EXPECT_EQ(NearestName("x", kNames), "");
  EXPECT_EQ(NearestName(std::string(10'000, 'x'), kNames), "");
  EXPECT_EQ(DidYouMean("zebra", kNames), "");
}

TEST(SuggestionTest, AsksForTheNearest) {
  EXPECT_EQ(DidYouMean("reprt", kNames), "; did you mean report?");
}

}  // namespace suggestion_test
}  // namespace ddprun
