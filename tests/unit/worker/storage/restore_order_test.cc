#include "worker/src/storage/restore_order.h"

#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "worker/contract/limits.h"

namespace ddp::internal {
namespace restore_order_test {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Getenv From(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

const Variables kOrder = {{"DDPRUN_RESTORE_TIER", "memory"},  {"DDPRUN_RESTORE_STEP", "1200"},
                          {"DDPRUN_RESTORE_RANK", "2"},       {"DDPRUN_RESTORE_EPOCH", "0"},
                          {"DDPRUN_RESTORE_GENERATION", "3"}, {"TORCHELASTIC_RUN_ID", "job"}};

TEST(RestoreOrderTest, IsReadFromTheEnvironment) {
  const auto order = ReadRestoreOrder(From(kOrder), 4);
  ASSERT_TRUE(order.has_value());
  EXPECT_FALSE(order->from_the_start);
  EXPECT_TRUE(order->in_memory);
  EXPECT_EQ(order->step, 1200);
  EXPECT_EQ(order->rank, 2);
  EXPECT_EQ(order->generation, 3);
}

TEST(RestoreOrderTest, IsNotThereWithoutAPlan) {
  const Variables none;
  EXPECT_FALSE(ReadRestoreOrder(From(none), 4).has_value());
}

TEST(RestoreOrderTest, MayBeToBeginAnew) {
  const Variables anew = {{"DDPRUN_RESTORE_TIER", "none"}, {"DDPRUN_RESTORE_STEP", "0"}};
  EXPECT_TRUE(ReadRestoreOrder(From(anew), 4)->from_the_start);
}

TEST(RestoreOrderTest, WhatIsMalformedIsNamed) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"DDPRUN_RESTORE_TIER", "tape"},
                                                        {"DDPRUN_RESTORE_STEP", "x"},
                                                        {"DDPRUN_RESTORE_STEP", "-3"},
                                                        {"DDPRUN_RESTORE_RANK", "4"},
                                                        {"DDPRUN_RESTORE_GENERATION", "new"}}) {
    Variables variables = kOrder;
    variables[name] = value;
    try {
      ReadRestoreOrder(From(variables), 4);
      ADD_FAILURE() << name << "=" << value;
    } catch (const ConfigError& e) {
      EXPECT_THAT(e.what(), HasSubstr(name + "=" + value));
    }
  }
}

TEST(RestoreOrderTest, AnUnseenCheckpointIsReadAndOnlyThatOneIsAllowed) {
  Variables variables = kOrder;
  EXPECT_FALSE(ReadUnseen(From(variables), 4).has_value());
  variables["DDPRUN_RESTORE_UNSEEN"] = "1300 3 0 2";
  const auto unseen = ReadUnseen(From(variables), 4);
  ASSERT_TRUE(unseen.has_value());
  EXPECT_EQ(unseen->step, 1300);
  EXPECT_EQ(unseen->rank, 3);
  Metadata made = {
      {"step", "1300"}, {"ddprun_job", "job"}, {"ddprun_epoch", "0"}, {"ddprun_generation", "2"}};
  EXPECT_TRUE(unseen->Allows(From(variables), made));
  made["ddprun_generation"] = "1";
  EXPECT_FALSE(unseen->Allows(From(variables), made)) << "a file of another job or generation";
  for (const char* const text : {"", "1300", "1300 4 0 2", "-1 3 0 2", "1300 x 0 2"}) {
    variables["DDPRUN_RESTORE_UNSEEN"] = text;
    EXPECT_THROW(ReadUnseen(From(variables), 4), ConfigError) << text;
  }
}

TEST(RestoreOrderTest, AFileOfALaterGenerationIsNotAllowed) {
  const auto order = *ReadRestoreOrder(From(kOrder), 4);
  const auto allows = [&](const char* step, const char* generation, const char* job = "job") {
    return order.Allows(From(kOrder), {{"step", step},
                                       {"ddprun_job", job},
                                       {"ddprun_epoch", "0"},
                                       {"ddprun_generation", generation}});
  };
  EXPECT_TRUE(allows("1200", "3"));
  EXPECT_FALSE(allows("1200", "2")) << "of that step it must be the very state";
  EXPECT_TRUE(allows("1100", "3"));
  EXPECT_TRUE(allows("1100", "1"));
  EXPECT_FALSE(allows("1100", "4"));
  EXPECT_TRUE(allows("1100", "4", "another job")) << "made before this one";
  EXPECT_TRUE(order.Allows(From(kOrder), {{"step", "1100"}})) << "it does not say";
}

// Seen red when a damaged state of this run led to a file of an earlier training.
TEST(RestoreOrderTest, ATrainingThatBeginsAnewLoadsNoFileOfAnotherRun) {
  Variables variables = kOrder;
  const auto allows = [&](const char* run) {
    const Metadata older = {{"step", "1100"},
                            {"ddprun_job", "job"},
                            {"ddprun_epoch", "0"},
                            {"ddprun_generation", "1"},
                            {"ddprun_run", run}};
    return ReadRestoreOrder(From(variables), 4)->Allows(From(variables), older);
  };
  variables["DDPRUN_JOB_RUN_ID"] = "00000000000000aa";
  variables["DDPRUN_EPOCH"] = "0";
  EXPECT_TRUE(allows("00000000000000bb"));
  variables["DDPRUN_ANEW"] = "1";
  EXPECT_FALSE(allows("00000000000000bb"));
  EXPECT_FALSE(ReadRestoreOrder(From(variables), 4)->Allows(From(variables), {{"step", "1100"}}));
  EXPECT_TRUE(allows("00000000000000aa"));
  variables["DDPRUN_RESTORE_GENERATION"] = "-1";
  EXPECT_FALSE(allows("00000000000000bb"));
  variables["DDPRUN_EPOCH"] = "1";
  EXPECT_TRUE(allows("00000000000000bb")) << "a requeued job";
}

// Like the restore plan for a file that the agent could not read.
TEST(RestoreOrderTest, WhereTheMakerIsNotKnownAllOlderFilesAreAllowed) {
  Variables variables = kOrder;
  variables["DDPRUN_RESTORE_GENERATION"] = "-1";
  const auto order = *ReadRestoreOrder(From(variables), 4);
  for (const char* step : {"1200", "1100"}) {
    EXPECT_TRUE(order.Allows(From(variables), {{"step", step},
                                               {"ddprun_job", "job"},
                                               {"ddprun_epoch", "0"},
                                               {"ddprun_generation", "4"}}));
  }
}

TEST(RestoreOrderTest, KnowsAStateThatThisRunHasMade) {
  Variables variables = kOrder;
  const auto order = *ReadRestoreOrder(From(variables), 4);
  EXPECT_FALSE(IsOfThisRun(From(variables), order));
  variables["DDPRUN_EPOCH"] = "0";
  variables["DDPRUN_GENERATION"] = "0";
  EXPECT_FALSE(IsOfThisRun(From(variables), order)) << "it has only begun";
  variables["DDPRUN_GENERATION"] = "4";
  EXPECT_TRUE(IsOfThisRun(From(variables), order));
  variables["DDPRUN_EPOCH"] = "1";
  EXPECT_FALSE(IsOfThisRun(From(variables), order));
}

TEST(RestoreOrderTest, TheTimeForAnUnavailableStateIsTwoMinutesUnlessItIsSaid) {
  Variables variables;
  EXPECT_EQ(StateTimeout(From(variables)), std::chrono::minutes(2));
  variables["DDPRUN_STATE_TIMEOUT_MS"] = "250";
  EXPECT_EQ(StateTimeout(From(variables)), std::chrono::milliseconds(250));
  // The longest time that a job file may have. Seen red when one limit was "up to" and the other
  // "below".
  variables["DDPRUN_STATE_TIMEOUT_MS"] = std::to_string(ddprun::kMaxTimeout.count());
  EXPECT_EQ(StateTimeout(From(variables)), ddprun::kMaxTimeout);
  variables["DDPRUN_STATE_TIMEOUT_MS"] = std::to_string(ddprun::kMaxTimeout.count() + 1);
  EXPECT_THROW(StateTimeout(From(variables)), ConfigError);
  variables["DDPRUN_STATE_TIMEOUT_MS"] = "soon";
  EXPECT_THROW(StateTimeout(From(variables)), ConfigError);
}

TEST(RestoreOrderTest, TheMakerIsWrittenWhereTheLauncherSaysWhoThatIs) {
  Metadata metadata;
  AddMaker(From(kOrder), &metadata);
  EXPECT_TRUE(metadata.empty());
  Variables variables = kOrder;
  variables["DDPRUN_EPOCH"] = "1";
  variables["DDPRUN_GENERATION"] = "5";
  AddMaker(From(variables), &metadata);
  EXPECT_EQ(metadata,
            (Metadata{{"ddprun_job", "job"}, {"ddprun_epoch", "1"}, {"ddprun_generation", "5"}}));
}

}  // namespace restore_order_test
}  // namespace ddp::internal
