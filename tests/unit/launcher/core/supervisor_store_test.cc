// The agent of rank 0's node serves torch's store, if the assignment says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcher/core/supervisor_driver.h"

namespace ddprun {
namespace supervisor_store_test {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kOpen[] = "open store g0 at 10.0.0.a:1001 for 4";

// Workers of other nodes may connect as soon as this node has sent AssignmentAck.
TEST(SupervisorStoreTest, NoWorkerStartsAnywhereBeforeTheStoreIsOpen) {
  SupervisorDriver node;
  node.HoldStores();
  node.Take();
  node.Assign(0, /*first_rank=*/0, /*agent_store=*/true);
  EXPECT_THAT(node.Take(), ElementsAre(kOpen));
  node.OpenedStore(0);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> AssignmentAck"));
}

TEST(SupervisorStoreTest, TheAnswerIsRepeatedOnTheNextSessionOnceTheStoreIsOpen) {
  SupervisorDriver node;
  node.HoldStores();
  node.Assign(0, 0, true);
  node.Lose();
  node.OpenedStore(0);
  node.Take();
  node.Open();
  EXPECT_THAT(node.Take(), Contains("g0-> AssignmentAck"));
}

TEST(SupervisorStoreTest, OtherAgentsServeNone) {
  SupervisorDriver node;
  node.Take();
  node.Assign(0, /*first_rank=*/2, /*agent_store=*/true);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> AssignmentAck"));
  node.Assign(1, /*first_rank=*/0, /*agent_store=*/false);
  EXPECT_THAT(node.Take(), ElementsAre("g1-> AssignmentAck"));
}

TEST(SupervisorStoreTest, TheStoreEndsWithTheGeneration) {
  SupervisorDriver node;
  node.Assign(0, 0, true);
  node.Start(0);
  node.Take();
  node.Stop(0);
  node.End(0);
  EXPECT_THAT(node.Take(), Not(Contains("close store"))) << "rank 1 may use it";
  node.End(1);
  EXPECT_THAT(node.Take(), ElementsAre(HasSubstr("Stopped"), "close store"));
}

TEST(SupervisorStoreTest, TheStoreOutlivesRankZero) {
  SupervisorDriver node;
  node.Assign(0, 0, true);
  node.Start(0);
  node.Take();
  node.End(0);
  node.End(1);
  EXPECT_THAT(node.Take(), Not(Contains("close store"))) << "other nodes may use it";
}

TEST(SupervisorStoreTest, AFormingThatWasGivenUpTakesItsStoreAlong) {
  SupervisorDriver node;
  node.Assign(0, 0, true);
  node.Take();
  node.Assign(1, 0, true);
  EXPECT_THAT(node.Take(),
              ElementsAre("open store g1 at 10.0.0.a:1001 for 4", "g1-> AssignmentAck"))
      << "in place of the one before";
  node.Assign(2, 2, true);
  EXPECT_THAT(node.Take(), ElementsAre("close store", "g2-> AssignmentAck"));
}

TEST(SupervisorStoreTest, AStoreThatCannotBeServedFailsRankZeroAsATakenPortDoes) {
  SupervisorDriver node;
  node.HoldStores();
  node.Assign(0, 0, true);
  node.StoreFails(0);
  node.Take();
  node.Start(0);
  EXPECT_THAT(node.Take(), Contains(HasSubstr("WorkerExited 0")));
  EXPECT_EQ(node.last_exit().error_kind, "bind");
  EXPECT_EQ(node.last_exit().error_text, "MASTER_PORT 1001 is taken");
  EXPECT_EQ(node.last_exit().pid, 0) << "nothing was started";
}

TEST(SupervisorStoreTest, WhatIsHeardOfAnEarlierStoreIsNotOfThisOne) {
  SupervisorDriver node;
  node.HoldStores();
  node.Assign(0, 0, true);
  node.Assign(1, 0, true);
  node.Take();
  node.StoreFails(0);
  node.OpenedStore(0);
  EXPECT_THAT(node.Take(), IsEmpty());
}

TEST(SupervisorStoreTest, AStoreThatIsSoughtElsewhereIsToldOnceAndOnTheNextSession) {
  SupervisorDriver node;
  node.Assign(0, 2, true);
  node.Start(0);
  node.Take();
  const auto seek = [&] { node.Step(Supervisor::StoreSoughtElsewhere{"localhost:29501"}); };
  seek();
  seek();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> StoreElsewhere localhost:29501"));
  node.Lose();
  node.Open();
  EXPECT_THAT(node.Take(), Contains("g0-> StoreElsewhere localhost:29501"));
}

TEST(SupervisorStoreTest, WithTheStoreOfTheWorkerItMayBeAnywhere) {
  SupervisorDriver node;
  node.Assign(0, 2, /*agent_store=*/false);
  node.Start(0);
  node.Take();
  node.Step(Supervisor::StoreSoughtElsewhere{"localhost:29501"});
  EXPECT_THAT(node.Take(), IsEmpty());
}

}  // namespace supervisor_store_test
}  // namespace ddprun
