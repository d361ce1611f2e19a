#include "rendezvous/http/access/grants.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ddprun::http {
namespace grants_test {

using namespace std::chrono_literals;

const TimePoint kStart = TimePoint() + 1h;

TEST(GrantsTest, AGrantIsFoundUntilItsTimeIsOver) {
  Grants grants(8, 8);
  grants.Add("secret", {.owner = "ann", .until = kStart + 60s}, kStart);
  EXPECT_EQ(grants.Find("secret", kStart + 59s)->owner, "ann");
  EXPECT_FALSE(grants.Find("secret", kStart + 60s));
  EXPECT_FALSE(grants.Find("secre", kStart));
  EXPECT_FALSE(grants.Find("", kStart));
}

TEST(GrantsTest, WhatIsTakenIsUsedUp) {
  Grants grants(8, 8);
  grants.Add("code", {.owner = "ann", .until = kStart + 60s}, kStart);
  EXPECT_TRUE(grants.Take("code", kStart));
  EXPECT_FALSE(grants.Take("code", kStart));
}

TEST(GrantsTest, AnOwnerAboveTheLimitLosesTheirOwnOldest) {
  Grants grants(2, 8);
  grants.Add("bob", {.owner = "bob", .until = kStart + 60s}, kStart);
  for (const char* secret : {"a1", "a2", "a3"}) {
    grants.Add(secret, {.owner = "ann", .until = kStart + 60s}, kStart);
  }
  EXPECT_FALSE(grants.Find("a1", kStart));
  EXPECT_TRUE(grants.Find("a2", kStart));
  EXPECT_TRUE(grants.Find("a3", kStart));
  EXPECT_TRUE(grants.Find("bob", kStart));
}

TEST(GrantsTest, ThereAreNeverMoreThanItsBound) {
  Grants grants(2, 3);
  for (int i = 0; i < 10; ++i) {
    grants.Add(std::to_string(i), {.owner = std::to_string(i), .until = kStart + 60s}, kStart);
  }
  EXPECT_EQ(grants.size(), 3u);
  EXPECT_TRUE(grants.Find("9", kStart));
}

TEST(GrantsTest, WhatHasExpiredMakesRoom) {
  Grants grants(8, 8);
  grants.Add("old", {.owner = "ann", .until = kStart + 1s}, kStart);
  grants.Add("bobs", {.owner = "bob", .until = kStart + 1s}, kStart);
  grants.Add("new", {.owner = "ann", .until = kStart + 60s}, kStart + 2s);
  EXPECT_EQ(grants.size(), 1u);
  EXPECT_TRUE(grants.Find("new", kStart + 2s));
}

}  // namespace grants_test
}  // namespace ddprun::http
