#include "launcher/core/error_files.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace error_files_test {

RootCause CauseOf(int generation, int rank) {
  RootCause cause;
  cause.failure.generation = Generation{generation};
  cause.failure.exit.rank = Rank{rank};
  return cause;
}

// Ranks 4 and 5 run here in generation 2, and both have left an error file.
ErrorFiles OfTwoWorkers() {
  ErrorFiles files;
  files.Begin(Generation{2}, Rank{4});
  files.Add(Generation{2}, LocalRank{0}, "of rank 4");
  files.Add(Generation{2}, LocalRank{1}, "of rank 5");
  return files;
}

TEST(ErrorFilesTest, TheOneOfTheRootCauseIsFoundByItsRank) {
  EXPECT_EQ(OfTwoWorkers().Of(CauseOf(2, 4)), "of rank 4");
  EXPECT_EQ(OfTwoWorkers().Of(CauseOf(2, 5)), "of rank 5");
}

TEST(ErrorFilesTest, ACauseElsewhereOrInAnotherGenerationHasNoneHere) {
  EXPECT_EQ(OfTwoWorkers().Of(CauseOf(2, 3)), "");
  EXPECT_EQ(OfTwoWorkers().Of(CauseOf(2, 6)), "");
  EXPECT_EQ(OfTwoWorkers().Of(CauseOf(1, 4)), "");
}

TEST(ErrorFilesTest, ANodeThatIsTheCauseHasNone) {
  RootCause lost = CauseOf(2, 4);
  lost.kind = RootCause::Kind::kNodeLost;
  EXPECT_EQ(OfTwoWorkers().Of(lost), "");
}

TEST(ErrorFilesTest, WhatIsReadAfterTheNextWorkersHaveStartedIsForgotten) {
  ErrorFiles files = OfTwoWorkers();
  files.Begin(Generation{3}, Rank{0});
  files.Add(Generation{2}, LocalRank{0}, "late");
  EXPECT_EQ(files.Of(CauseOf(3, 0)), "");
  EXPECT_EQ(files.Of(CauseOf(2, 4)), "");
}

}  // namespace error_files_test
}  // namespace ddprun
