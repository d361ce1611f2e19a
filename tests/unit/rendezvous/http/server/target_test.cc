#include "rendezvous/http/server/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::http {
namespace target_test {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(TargetTest, PathAndQueryAreDecoded) {
  const auto target = ParseTarget("/api/a%20b?job=exp%207&x=1+2&&flag");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/api/a b");
  EXPECT_THAT(target->query, ElementsAre(Pair("flag", ""), Pair("job", "exp 7"), Pair("x", "1 2")));
}

TEST(TargetTest, OfANameThatComesTwiceTheLastCounts) {
  EXPECT_EQ(ParseTarget("/?a=1&a=2")->query.at("a"), "2");
}

TEST(TargetTest, APlusInAPathIsItself) { EXPECT_EQ(ParseTarget("/a+b")->path, "/a+b"); }

TEST(TargetTest, PathTricksAreNoTargets) {
  for (const char* trick :
       {"", "api", "*", "http://evil/", "/../etc/passwd", "/api/../../x", "/a/%2e%2e/b", "/./a",
        "/%2E", "/a%00b", "/a%0d%0aSet-Cookie:x", "/%", "/%4", "/%zz", "/?a=%", "/?a%00=1"}) {
    EXPECT_FALSE(ParseTarget(trick)) << trick;
  }
}

TEST(TargetTest, TwiceEncodedDotsAreAnOrdinaryName) {
  EXPECT_EQ(ParseTarget("/%252e%252e")->path, "/%2e%2e");
}

}  // namespace target_test
}  // namespace ddprun::http
