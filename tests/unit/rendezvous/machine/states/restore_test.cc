// Tests the restore plan: which state a generation begins with, and which rank sends it.
// tests/scenario/restore_* has whole stories.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace restore_test {

using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr ExitStatus kCode3{3, 0, false};

SavedState Memory(int generation, std::int64_t step) {
  return {0, Generation{generation}, step, Tier::kMemory};
}

SavedState Durable(int generation, std::int64_t step) {
  return {0, Generation{generation}, step, Tier::kDurable};
}

class RestoreTest : public testing::Test {
 protected:
  RestoreTest() : job_(JobMachineDriver::Spec(2, 2, 9)) { job_.RunTwoNodes(); }

  // Generation 0 fails; a and b hold these states when generation 1 forms. Returns the plan as
  // text.
  std::string PlanFor(std::vector<SavedState> a, std::vector<SavedState> b) {
    job_.Exit('b', 3, 1, kCode3);
    job_.Receive('a', Stopped{2000, {}, 0, std::move(a)});
    job_.Receive('b', Stopped{2001, {}, 0, std::move(b)});
    return Planned();
  }
  std::string Planned() {
    const auto plan = job_.machine().Status(job_.now()).restore;
    return plan ? Describe(*plan) : "no plan";
  }

  JobMachineDriver job_;
};

TEST_F(RestoreTest, Rank0IsTheSourceWhereNobodyHoldsANewerState) {
  EXPECT_EQ(PlanFor({Durable(0, 100)}, {Memory(0, 100), Durable(0, 90)}),
            "resumes at step 100 from rank 0 (disk of node a)");
}

TEST_F(RestoreTest, AnotherNodesLocalRank0IsTheSourceOfANewerState) {
  EXPECT_EQ(PlanFor({Durable(0, 100)}, {Memory(0, 110)}),
            "resumes at step 110 from rank 2 (memory of node b)");
}

TEST_F(RestoreTest, MemoryIsTakenBeforeTheDiskOfTheSameNode) {
  EXPECT_EQ(PlanFor({Durable(0, 100), Memory(0, 100)}, {}),
            "resumes at step 100 from rank 0 (memory of node a)");
}

TEST_F(RestoreTest, ADurableStateThatIsNewerIsTakenBeforeMemory) {
  EXPECT_EQ(PlanFor({Durable(0, 101), Memory(0, 100)}, {}),
            "resumes at step 101 from rank 0 (disk of node a)");
}

TEST_F(RestoreTest, WhereNobodyEverToldOfAStateThereIsNoPlan) {
  EXPECT_EQ(PlanFor({}, {}), "no plan");
}

TEST_F(RestoreTest, WhereStatesWereToldOfAndNoneIsLeftTheTrainingStartsAtStep0) {
  job_.Receive('a', Heartbeat{1, 60, {Memory(0, 50)}});
  EXPECT_EQ(PlanFor({}, {}), "starts at step 0: no node holds a state that is valid");
  EXPECT_THAT(job_.TakeNotes(), Contains(HasSubstr("starts at step 0")));
}

TEST(StartAnewTest, WithoutAnyStateAllRanksAreToldToBeginAtStep0) {
  JobSpec spec = JobMachineDriver::Spec(2, 2, 9);
  spec.start_anew = true;
  JobMachineDriver job(spec);
  job.RunTwoNodes();
  const auto plan = job.machine().Status(job.now()).restore;
  ASSERT_TRUE(plan) << "rank 0 would load what it finds";
  EXPECT_FALSE(plan->state);
}

TEST_F(RestoreTest, AHeartbeatWithoutStatesTakesNothingBack) {
  job_.Receive('a', Heartbeat{1, 60, {Memory(0, 50)}});
  job_.Beat('a');
  EXPECT_EQ(job_.machine().Status(job_.now()).nodes[0].newest_state, Memory(0, 50));
}

TEST_F(RestoreTest, AHeartbeatThatComesAfterDrainedTakesNothingBack) {
  job_.Exit('b', 3, 1, kCode3);
  job_.Receive('a', Stopped{2000, {}, 0, {Memory(0, 50)}});
  job_.Receive('a', Heartbeat{1, 60, {Memory(0, 70)}});
  job_.Receive('b', Stopped{2001, {}, 0, {}});
  EXPECT_EQ(Planned(), "resumes at step 50 from rank 0 (memory of node a)");
}

TEST_F(RestoreTest, EveryAssignmentHasThePlan) {
  PlanFor({}, {Memory(0, 110)});
  for (const std::string& line : job_.Take()) {
    if (line.find("Assignment") == std::string::npos) continue;
    EXPECT_THAT(line, HasSubstr("; resumes at step 110 from rank 2 (memory of node b)"));
  }
}

TEST_F(RestoreTest, TheEventOfTheGenerationHasThePlan) {
  PlanFor({}, {Memory(0, 110)});
  const std::vector<JobEvent> events = job_.TakeEvents();
  EXPECT_EQ(events.back().kind, JobEvent::Kind::kFormed);
  ASSERT_TRUE(events.back().restore);
  EXPECT_EQ(events.back().restore->state, Memory(0, 110));
  EXPECT_EQ(events.back().restore->source, Rank{2});
}

TEST_F(RestoreTest, ADamagedCheckpointIsAnEvent) {
  job_.Receive('b', CheckpointDamaged{7, "/c/step-7: too short"});
  const JobEvent event = job_.TakeEvents().back();
  EXPECT_EQ(event.kind, JobEvent::Kind::kCheckpointDamaged);
  EXPECT_EQ(event.host, "b");
  EXPECT_EQ(event.step, 7);
  EXPECT_EQ(event.reason, "/c/step-7: too short");
}

TEST_F(RestoreTest, AStateOfADeadTimelineIsDiscardedAndNamed) {
  PlanFor({Memory(0, 100)}, {Memory(0, 100)});
  job_.Prepare('a');
  job_.Prepare('b');
  job_.Exit('b', 3, 1, kCode3);
  job_.Receive('a', Stopped{2000, 170, 0, {Memory(0, 100)}});
  job_.Receive('b', Stopped{2001, {}, 0, {Memory(0, 140)}});
  EXPECT_EQ(Planned(), "resumes at step 100 from rank 0 (memory of node a)");
  EXPECT_THAT(job_.TakeNotes(), Contains(HasSubstr("step 140 of generation 0 on b (memory)")));
}

// Node a saved a checkpoint at step 200 and is lost. Node b finds the file in the shared folder,
// and cannot read it.
class UnknownMakerTest : public RestoreTest {
 protected:
  static SavedState Unreadable(std::int64_t step) {
    SavedState file = Durable(-1, step);
    file.unreadable = true;
    return file;
  }

  UnknownMakerTest() {
    PlanFor({Memory(0, 100)}, {Memory(0, 100)});
    job_.Prepare('a');
    job_.Prepare('b');
    job_.Receive('a', Checkpointed{200});
  }
  // b has `at_b`, and c, which takes a's place, has `at_c`.
  std::string PlanWith(std::vector<SavedState> at_b, std::vector<SavedState> at_c) {
    job_.Gone('a');
    job_.Receive('b', Stopped{2001, {}, 0, std::move(at_b)});
    job_.Receive('c', Join{job_.spec(), {"c", "10.0.0.c", 2}, 2002, false, false, at_c});
    return Planned();
  }
};

TEST_F(UnknownMakerTest, TheNewestCheckpointIsNotPassedOver) {
  EXPECT_THAT(PlanWith({Unreadable(200), Durable(1, 150)}, {}), HasSubstr("resumes at step 200"));
}

// The report of a checkpoint may be lost with its node.
TEST_F(UnknownMakerTest, NorIsOneThatNobodyReported) {
  EXPECT_THAT(PlanWith({Unreadable(201), Durable(1, 150)}, {}), HasSubstr("resumes at step 201"));
}

TEST_F(UnknownMakerTest, AStepThatNobodyCanHaveMadeIsOlderThanTheJob) {
  EXPECT_THAT(PlanWith({Unreadable(300), Durable(1, 150)}, {}), HasSubstr("resumes at step 150"));
}

// Node c has other rights, for example. It would end the job.
TEST_F(UnknownMakerTest, ANodeThatCanReadTheSameStateIsTheSource) {
  EXPECT_EQ(PlanWith({Durable(1, 200)}, {Unreadable(200)}),
            "resumes at step 200 from rank 2 (disk of node b)");
}

TEST_F(UnknownMakerTest, ANodeThatCanReadTheSameStateIsTheSourceAlsoWithALowerRank) {
  EXPECT_EQ(PlanWith({Unreadable(200)}, {Durable(1, 200)}),
            "resumes at step 200 from rank 0 (disk of node c)");
}

TEST_F(UnknownMakerTest, OfOneNodesStatesTheOneThatCanBeReadIsTaken) {
  EXPECT_EQ(PlanWith({Unreadable(200), Memory(1, 200)}, {}),
            "resumes at step 200 from rank 2 (memory of node b)");
}

// Node a saved a checkpoint at step 200 and is lost. Node b cannot list the folder.
class UnlistedFolderTest : public UnknownMakerTest {
 protected:
  // b has `at_b`, and c, which takes a's place, has `at_c`.
  std::string UnlistedPlan(std::vector<SavedState> at_b, std::vector<SavedState> at_c) {
    job_.Gone('a');
    job_.Receive('b', Unlisted(2001, std::move(at_b)));
    job_.Receive('c', Join{job_.spec(), {"c", "10.0.0.c", 2}, 2002, false, false, at_c});
    return Planned();
  }
  static Stopped Unlisted(int port, std::vector<SavedState> states) {
    Stopped stopped{port, {}, 0, std::move(states)};
    stopped.states_incomplete = true;
    return stopped;
  }
  static constexpr char kFirst200OnB[] =
      "; but first its workers look for the checkpoint of step 200 on node b, whose disk cannot be "
      "read completely";
};

TEST_F(UnlistedFolderTest, TheReportedCheckpointIsLookedForFirst) {
  EXPECT_EQ(UnlistedPlan({Memory(1, 150)}, {}),
            std::string("resumes at step 150 from rank 2 (memory of node b)") + kFirst200OnB);
}

TEST_F(UnlistedFolderTest, AlsoIfNothingElseIsKnown) {
  EXPECT_THAT(UnlistedPlan({}, {}), HasSubstr(kFirst200OnB));
}

TEST_F(UnlistedFolderTest, TheStateOfAnotherNodeStaysInThePlan) {
  EXPECT_EQ(UnlistedPlan({}, {Memory(1, 180)}),
            std::string("resumes at step 180 from rank 0 (memory of node c)") + kFirst200OnB);
}

TEST_F(UnlistedFolderTest, WhereANodeHasItItIsNotLookedFor) {
  EXPECT_EQ(UnlistedPlan({Memory(1, 150)}, {Durable(1, 200)}),
            "resumes at step 200 from rank 0 (disk of node c)");
}

TEST_F(UnlistedFolderTest, AStateThatIsAsNewIsEnough) {
  EXPECT_EQ(UnlistedPlan({Memory(1, 200)}, {}),
            "resumes at step 200 from rank 2 (memory of node b)");
}

// The generation after resumed at step 150, so the checkpoint of step 200 is of a dead timeline. No
// worker of it reported a step.
TEST_F(UnlistedFolderTest, ACheckpointOfADeadTimelineIsNotLookedFor) {
  PlanWith({Memory(1, 150)}, {});
  job_.Prepare('b');
  job_.Prepare('c');
  job_.Exit('c', 3, 1, kCode3);
  job_.Receive('b', Unlisted(2001, {Memory(1, 150)}));
  job_.Receive('c', Stopped{2002, {}, 0, {}});
  EXPECT_EQ(Planned(), "resumes at step 150 from rank 2 (memory of node b)");
}

// The leader is lost together with node a. A daemon that begins again has the same record.
TEST_F(UnlistedFolderTest, ARestartOfTheDaemonForgetsNoReportedCheckpoint) {
  job_.Receive('a', Checkpointed{300});
  job_.RestartDaemon(seconds(1));
  EXPECT_EQ(job_.record()->checkpoint, 300);
  EXPECT_EQ(job_.record()->checkpoint_generation, Generation{1});
}

// The generation would have resumed at 100, but was given up before any worker started.
TEST_F(RestoreTest, AFormingThatWasGivenUpKillsNoTimeline) {
  PlanFor({Memory(0, 100)}, {});
  job_.Gone('b');
  job_.Receive('c', Join{job_.spec(), {"c", "10.0.0.c", 2}, 2002, false, false, {Durable(0, 200)}});
  EXPECT_EQ(Planned(), "resumes at step 200 from rank 2 (disk of node c)");
}

TEST_F(RestoreTest, ANodeThatWaitsAsASpareIsNoSource) {
  job_.Receive('c', Join{job_.spec(), {"c", "10.0.0.c", 2}, 2002, false, false, {Durable(0, 200)}});
  EXPECT_EQ(PlanFor({Memory(0, 100)}, {}), "resumes at step 100 from rank 0 (memory of node a)");
}

TEST_F(RestoreTest, TheRecordHasThePlanAndTheTimeline) {
  PlanFor({Memory(0, 100)}, {});
  EXPECT_EQ(job_.record()->restore->state, Memory(0, 100));
  EXPECT_THAT(job_.record()->timeline, testing::IsEmpty());  // no worker of it has started
  job_.RestartDaemon(seconds(1));  // after a restart they may have started
  job_.Rejoin('a', 1, true);
  job_.Rejoin('b', 1, true);
  job_.Exit('b', 3, 1, kCode3);
  job_.Receive('a', Stopped{2000, 170, 0, {Memory(0, 170)}});
  job_.Receive('b', Stopped{2001, {}, 0, {Durable(0, 90)}});
  EXPECT_EQ(Planned(), "resumes at step 90 from rank 2 (disk of node b)");
  EXPECT_THAT(job_.record()->timeline, testing::ElementsAre(ResumePoint{0, Generation{1}, 100}));
}

TEST_F(RestoreTest, WhatWasResumedBeforeIsRememberedThroughTwoRestartsOfTheDaemon) {
  PlanFor({Memory(0, 100)}, {});
  job_.Prepare('a');
  job_.Prepare('b');
  job_.Exit('b', 3, 1, kCode3);
  job_.Receive('a', Stopped{2000, 160, 0, {Memory(1, 150)}});
  job_.Receive('b', Stopped{2001, {}, 0, {}});
  job_.RestartDaemon(seconds(1));
  job_.RestartDaemon(seconds(1));
  job_.Rejoin('a', 2, true);
  job_.Rejoin('b', 2, true);
  job_.Exit('b', 3, 1, kCode3);
  // Generation 2 resumed at 150, but generation 1 at 100.
  job_.Receive('a', Stopped{2000, 170, 0, {Memory(0, 140), Durable(0, 90)}});
  job_.Receive('b', Stopped{2001, {}, 0, {}});
  EXPECT_EQ(Planned(), "resumes at step 90 from rank 0 (disk of node a)");
}

TEST_F(RestoreTest, AnAgentThatNamesTooManyIsHeardAsFarAsTheBound) {
  std::vector<SavedState> many;
  for (int step = 0; step < 20; ++step) many.push_back(Memory(0, step));
  EXPECT_EQ(PlanFor(many, {}), "resumes at step 7 from rank 0 (memory of node a)");
}

}  // namespace restore_test
}  // namespace ddprun
