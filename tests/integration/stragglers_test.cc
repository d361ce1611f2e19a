// ddprun names a rank that keeps the others waiting, on the console of rank 0's node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job.h"

namespace ddprun {
namespace stragglers_test {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(StragglersTest, TheAgentOfRankZeroNamesTheSlowRankOnceAndSaysWhenItIsOver) {
  TempDir folder;
  Job job(folder.path());
  Program& node = job.AddNode({"--nproc-per-node", "3", "--", STRAGGLER_WORKER, "2"});
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  const std::string err = node.err();
  // The worker's own line, and the agent's.
  EXPECT_THAT(err, ContainsRegex("\\[default0\\]:ddp: rank 2 \\([^ ]+\\) keeps the others"));
  const std::string named = "rank 2 on ";
  ASSERT_THAT(err, HasSubstr(named));
  EXPECT_EQ(err.find(named), err.rfind(named)) << err;
  EXPECT_THAT(err, ContainsRegex("rank 2 on [^ ]+ keeps the others waiting: of each step it "
                                 "computes 1[0-9.]+ ms .* the others 1[0-9.]+ ms"));
  EXPECT_THAT(err, HasSubstr("rank 2 keeps the others waiting no longer"));
  for (const char* const other : {"rank 0", "rank 1"}) {
    EXPECT_THAT(err, Not(ContainsRegex(std::string(other) + " .*keeps the others")));
  }
  EXPECT_THAT(job.Survivors(), IsEmpty());
}

TEST(StragglersTest, NobodyIsNamedInAnEvenJob) {
  TempDir folder;
  Job job(folder.path());
  Program& node = job.AddNode({"--nproc-per-node", "3", "--", STRAGGLER_WORKER, "-1"});
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_THAT(node.err(), Not(HasSubstr("keeps the others")));
}

}  // namespace stragglers_test
}  // namespace ddprun
