#include "launcher/torch_store/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun::torch_store {
namespace arrivals_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

bool Add(Arrivals& arrivals, const std::string& key, std::int64_t number = 1) {
  Request request;
  request.operation = Operation::kAdd;
  request.texts = {key};
  request.number = number;
  return arrivals.See(request);
}

bool Set(Arrivals& arrivals, const std::string& key) {
  Request request;
  request.operation = Operation::kSet;
  request.texts = {key, "value"};
  return arrivals.See(request);
}

TEST(ArrivalsTest, EveryClientOfTorchIsCounted) {
  Arrivals arrivals;
  EXPECT_EQ(arrivals.count(3), 0);
  EXPECT_TRUE(Add(arrivals, "init/"));
  EXPECT_FALSE(Add(arrivals, "init/", 0)) << "it only reads";
  EXPECT_FALSE(Add(arrivals, "counter"));
  EXPECT_TRUE(Add(arrivals, "init/"));
  EXPECT_EQ(arrivals.count(3), 2);
  EXPECT_EQ(arrivals.Missing(3, 16), std::nullopt) << "nobody knows which";
  EXPECT_EQ(arrivals.count(1), 1) << "one of them came twice";
}

TEST(ArrivalsTest, GlooAndTheLibraryTellWhichRankItIs) {
  Arrivals arrivals;
  EXPECT_TRUE(Set(arrivals, "//worker/attempt_0/default_pg/0/0/rank_2"));
  EXPECT_FALSE(Set(arrivals, "//worker/attempt_0/default_pg/0/0/rank_2"));
  EXPECT_TRUE(Set(arrivals, "ddp/generation_3/joined/0"));
  EXPECT_EQ(arrivals.count(4), 2);
  EXPECT_THAT(arrivals.Missing(4, 16), Optional(ElementsAre(1, 3)));
  EXPECT_THAT(arrivals.Missing(4, 1), Optional(ElementsAre(1)));
  EXPECT_THAT(arrivals.Missing(1, 16), Optional(IsEmpty()));
}

TEST(ArrivalsTest, WhatIsNoRankIsNobody) {
  Arrivals arrivals;
  for (const char* const key : {"/rank_", "/rank_x", "/rank_-1", "/rank_1048576", "rank 1", ""}) {
    EXPECT_FALSE(Set(arrivals, key)) << key;
  }
  EXPECT_EQ(arrivals.count(4), 0);
}

}  // namespace arrivals_test
}  // namespace ddprun::torch_store
