#include "launcher/core/node_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

namespace ddprun {
namespace node_states_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Generation kGen{2};

SavedState Memory(std::int64_t step) { return {0, kGen, step, Tier::kMemory}; }
SavedState Durable(std::int64_t step) { return {0, kGen, step, Tier::kDurable}; }

TEST(NodeStatesTest, TellsTheNewestFirst) {
  NodeStates states;
  states.OnCheckpoint(0, kGen, 100, "/ck/100");
  states.OnSnapshot(0, kGen, 110);
  states.OnCheckpoint(0, kGen, 120, "/ck/120");
  EXPECT_THAT(states.List(), ElementsAre(Durable(120), Memory(110), Durable(100)));
}

// The library may be overwriting the slot of the snapshot before.
TEST(NodeStatesTest, OfSnapshotsOnlyTheOneThatWasReportedLastIsSure) {
  NodeStates states;
  states.OnSnapshot(0, kGen, 110);
  states.OnSnapshot(0, kGen, 120);
  EXPECT_THAT(states.List(), ElementsAre(Memory(120)));
}

TEST(NodeStatesTest, AFileThatIsWrittenAgainIsTheNewOne) {
  NodeStates states;
  states.OnCheckpoint(0, Generation{1}, 100, "/ck/last");
  states.OnCheckpoint(0, kGen, 90, "/ck/last");
  EXPECT_THAT(states.List(), ElementsAre(Durable(90)));
}

TEST(NodeStatesTest, WhatIsNotFoundOnTheDiskIsGone) {
  NodeStates states;
  states.OnCheckpoint(0, kGen, 100, "/ck/100");
  states.OnSnapshot(0, kGen, 110);
  states.OnFound({{Durable(80), "/ck/80"}});
  EXPECT_THAT(states.List(), ElementsAre(Memory(110), Durable(80)));
}

TEST(NodeStatesTest, TellsThatADiskCouldNotBeRead) {
  NodeStates states;
  states.OnFound({{Durable(80), "/ck/80"}}, /*incomplete=*/true);
  AgentMessage join = Join{};
  AgentMessage stopped = Stopped{};
  AgentMessage held = HeldStates{};
  for (AgentMessage* const message : {&join, &stopped, &held}) states.FillIn(message);
  EXPECT_TRUE(std::get<Join>(join).states_incomplete);
  EXPECT_TRUE(std::get<Stopped>(stopped).states_incomplete);
  EXPECT_TRUE(std::get<HeldStates>(held).states_incomplete);
  states.OnFound({});
  states.FillIn(&held);
  EXPECT_FALSE(std::get<HeldStates>(held).states_incomplete);
}

TEST(NodeStatesTest, WhatIsPastTheStepThatAGenerationBeginsWithIsForgotten) {
  NodeStates states;
  states.OnCheckpoint(0, kGen, 100, "/ck/100");
  states.OnCheckpoint(0, kGen, 120, "/ck/120");
  states.OnSnapshot(0, kGen, 110);
  RestorePlan plan;
  plan.state = Durable(100);
  states.OnStarted(plan);
  EXPECT_THAT(states.List(), ElementsAre(Durable(100)));
  states.OnStarted(RestorePlan{});
  EXPECT_THAT(states.List(), IsEmpty());
}

TEST(NodeStatesTest, JoinAndDrainedTellAllAndAHeartbeatWhatHasChanged) {
  NodeStates states;
  states.OnSnapshot(0, kGen, 110);
  AgentMessage join = Join{};
  states.FillIn(&join);
  EXPECT_THAT(std::get<Join>(join).states, ElementsAre(Memory(110)));
  AgentMessage quiet = Heartbeat{};
  states.FillIn(&quiet);
  EXPECT_THAT(std::get<Heartbeat>(quiet).states, IsEmpty());
  states.OnSnapshot(0, kGen, 120);
  AgentMessage news = Heartbeat{};
  states.FillIn(&news);
  EXPECT_THAT(std::get<Heartbeat>(news).states, ElementsAre(Memory(120)));
  AgentMessage drained = Stopped{};
  states.FillIn(&drained);
  EXPECT_THAT(std::get<Stopped>(drained).states, ElementsAre(Memory(120)));
}

TEST(NodeStatesTest, TellsNoMoreThanTheBound) {
  NodeStates states;
  for (int step = 0; step < 50; ++step) {
    states.OnCheckpoint(0, kGen, step, "/ck/" + std::to_string(step));
  }
  states.OnSnapshot(0, kGen, 60);
  EXPECT_EQ(states.List().size(), kMaxSavedStates);
  EXPECT_EQ(states.List().front(), Memory(60));
}

}  // namespace node_states_test
}  // namespace ddprun
