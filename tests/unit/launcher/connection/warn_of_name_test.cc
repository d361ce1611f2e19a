#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/connection/connection.h"

namespace ddprun {
namespace warn_of_name_test {

using testing::HasSubstr;

JobConfig Job(int most_nodes) {
  JobConfig config;
  config.nodes.min = config.nodes.max = most_nodes;
  return config;
}

TEST(WarnOfNameTest, AJobBetweenHostsWithoutANameHearsWhatMayHappen) {
  EXPECT_THAT(
      WarnOfName(Job(2), "10.0.0.7"),
      HasSubstr("no --rdzv-id: the rendezvous would take another job without one for the same "
                "job"));
}

TEST(WarnOfNameTest, AJobWithANameOfOneNodeOrOnLoopbackIsLeftInPeace) {
  JobConfig named = Job(2);
  named.rendezvous.id = "exp7";
  EXPECT_EQ(WarnOfName(named, "10.0.0.7"), "");
  EXPECT_EQ(WarnOfName(Job(1), "10.0.0.7"), "");
  EXPECT_EQ(WarnOfName(Job(2), "127.0.0.1"), "");
  EXPECT_EQ(WarnOfName(Job(2), "::1"), "");
}

}  // namespace warn_of_name_test
}  // namespace ddprun
