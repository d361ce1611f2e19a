// Supervisor: processes that SIGKILL did not end are reported to the rendezvous until they are
// gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "tests/unit/launcher/core/supervisor_driver.h"

namespace ddprun {
namespace supervisor_stuck_test {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ExitStatus kKilled{0, SIGKILL, false};

StuckProcess Rank3() {
  return {Rank{3}, 101, ProcessState::kDiskWait, "write(/data/log)", seconds(2)};
}

// Rank 3 survives SIGKILL at the end of generation 0.
void StickRank3(SupervisorDriver* node) {
  node->Run();
  node->Stop(0);
  node->Advance(seconds(10));
  node->End(0, kKilled);
  node->Stick({Rank3()});
  node->Take();
  node->TakeNotes();
  node->Advance(seconds(2));
}

TEST(SupervisorStuckTest, StoppedNamesWhomSigkillDidNotEnd) {
  SupervisorDriver node;
  StickRank3(&node);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped, stuck 101"));
  EXPECT_THAT(node.last_stopped().stuck.processes, ElementsAre(Rank3()));
  EXPECT_THAT(node.TakeNotes(),
              ElementsAre("rank 3 (pid 101) did not end after SIGKILL, and is not waited for",
                          "rank 3 (pid 101) is still there 2 s after SIGKILL, in disk wait (D), in "
                          "write(/data/log); until it is gone no worker starts here"));
}

TEST(SupervisorStuckTest, EveryJoinAndHeartbeatSaysItAgainAsItIsThen) {
  SupervisorDriver node;
  StickRank3(&node);
  node.Advance(seconds(1));
  EXPECT_EQ(node.heartbeats().back().stuck.processes.at(0).stuck, seconds(3));
  node.Lose();
  node.Advance(seconds(4));
  node.Take();
  node.Open();
  EXPECT_THAT(node.Take(),
              ElementsAre("g0-> Join, stuck 101", "g0-> AssignmentAck", "g0-> Stopped, stuck 101"));
  EXPECT_EQ(node.last_join().stuck.processes.at(0).stuck, seconds(7));
  EXPECT_EQ(node.last_join().stuck.report, 1U);
}

TEST(SupervisorStuckTest, ItsEndIsToldAtOnce) {
  SupervisorDriver node;
  StickRank3(&node);
  node.Take();
  node.Unstick(101);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Heartbeat, nothing stuck"));
  EXPECT_EQ(node.heartbeats().back().stuck.report, 2U);
  EXPECT_THAT(node.TakeNotes(), Contains("process 101 is gone, which SIGKILL had not ended"));
}

TEST(SupervisorStuckTest, WhereThereIsNoLeaseToo) {
  SupervisorDriver node(SupervisorDriver::WithoutLeases());
  StickRank3(&node);
  node.Take();
  node.Unstick(101);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Heartbeat, nothing stuck"));
}

// When a stuck process ends, the guardian becomes the parent of its children. Only then can the
// agent find them.
TEST(SupervisorStuckTest, WhatItLeavesBehindIsLookedForBeforeTheNodeIsSaidToBeFree) {
  SupervisorDriver node;
  StickRank3(&node);
  node.Stick({{std::nullopt, 205}});
  node.Take();
  node.Step(Supervisor::StuckProcessEnded{101});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Heartbeat, stuck 205"));
  node.Unstick(205);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Heartbeat, nothing stuck"));
}

TEST(SupervisorStuckTest, OneOfTwoIsGone) {
  SupervisorDriver node;
  node.Run();
  node.Stop(0);
  node.Advance(seconds(10));
  node.Stick({{Rank{2}, 100}, Rank3()});
  node.Take();
  node.Advance(seconds(2));
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped, stuck 100,101"));
  EXPECT_THAT(node.TakeNotes(), Contains(HasSubstr("after SIGKILL; and so are 1 more; until")));
  node.Stick({Rank3()});
  node.Step(Supervisor::StuckProcessEnded{100});
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Heartbeat, stuck 101"));
}

TEST(SupervisorStuckTest, ANodeThatHasFencedItselfJoinsWithIt) {
  SupervisorDriver node;
  node.Run();
  node.Stick({Rank3()});
  node.Advance(seconds(25));
  ASSERT_EQ(node.supervisor().state(), SupervisorState::kFenced);
  node.End(0, kKilled);
  node.Take();
  node.Advance(seconds(2));
  EXPECT_THAT(node.Take(), Contains("g0-> Join, stuck 101"));
}

TEST(SupervisorStuckTest, TheEndOfTheJobDoesNotWaitForIt) {
  SupervisorDriver node;
  node.Run();
  node.Finish(Outcome::kFailed, 3);
  node.Stick({Rank3()});
  node.Advance(seconds(10));
  node.Take();
  node.TakeNotes();
  node.Advance(seconds(2));
  EXPECT_THAT(node.Take(), ElementsAre("Exit 3 failed"));
  EXPECT_THAT(node.TakeNotes(), Contains(HasSubstr("; this agent ends without it")));
  node.Unstick(101);
  EXPECT_THAT(node.Take(), IsEmpty());
}

}  // namespace supervisor_stuck_test
}  // namespace ddprun
