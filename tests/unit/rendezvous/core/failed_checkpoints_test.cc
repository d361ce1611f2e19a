// Tests failed checkpoints, from the report of a worker to the sum for the job.
// tests/scenario/failed_checkpoints.txt has sessions that break and a rendezvous that restarts.
#include "rendezvous/core/failed_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/launcher/core/supervisor_driver.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace failed_checkpoints_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

// ---- the tally ----

constexpr AgentId kA{7};
constexpr AgentId kB{8};

TEST(FailureTallyTest, AddsUpWhatIsNewOfEachAgent) {
  FailureTally tally;
  EXPECT_EQ(tally.Take(kA, "a", {2, 10, "disk full"}), 2);
  EXPECT_EQ(tally.Take(kB, "b", {1, 11, "quota"}), 1);
  EXPECT_EQ(tally.Take(kA, "a", {2, 10, "disk full"}), 0) << "said again on a new session";
  EXPECT_EQ(tally.Take(kA, "a", {1, 9, "disk full"}), 0) << "older, and late";
  EXPECT_EQ(tally.Take(kA, "a", {}), 0);
  EXPECT_EQ(tally.total(), (FailedCheckpoints{3, 11, "quota", "b"}));
  EXPECT_EQ(tally.Take(kA, "a", {5, 20, "read-only"}), 3);
  EXPECT_EQ(tally.total(), (FailedCheckpoints{6, 20, "read-only", "a"}));
}

TEST(FailureTallyTest, GoesOnFromItsRecord) {
  FailureTally before;
  before.Take(kB, "b", {1, 11, "quota"});
  before.Take(kA, "a", {2, 10, "disk full"});
  EXPECT_THAT(before.Record().told, ElementsAre(ToldFailures{kA, 2}, ToldFailures{kB, 1}));
  FailureTally after(before.Record());
  EXPECT_EQ(after.Record(), before.Record());
  EXPECT_EQ(after.Take(kA, "a", {3, 12, "disk full"}), 1);
  EXPECT_EQ(after.total().count, 4);
}

TEST(FailureTallyTest, MoreAgentsThanAJobCanHaveAreNotHeard) {
  FailureTally tally;
  for (std::uint64_t i = 1; i <= FailureTally::kMaxAgents; ++i) {
    tally.Take(AgentId{i}, "a", {1, 10, ""});
  }
  EXPECT_EQ(tally.Take(AgentId{FailureTally::kMaxAgents + 1}, "b", {1, 10, ""}), 0);
  EXPECT_EQ(tally.Take(AgentId{1}, "a", {2, 10, ""}), 1);
  EXPECT_EQ(tally.Record().told.size(), FailureTally::kMaxAgents);
}

// ---- an agent ----

TEST(SupervisorFailuresTest, AreToldOnceWithTheNextHeartbeat) {
  SupervisorDriver node;
  node.Run();
  node.FailToSave(0, 10, 1, "disk full");
  node.FailToSave(0, 20, 2, "read-only");
  EXPECT_THAT(node.Take(), IsEmpty()) << "a disk that is full does not flood the rendezvous";
  node.Live(seconds(3), true);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Heartbeat, 2 failed"));
  node.FailToSave(0, 30, 3);
  node.Live(seconds(3), true);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Heartbeat, 3 failed"));
}

TEST(SupervisorFailuresTest, HaveTheStepAndTheReasonOfTheLast) {
  SupervisorDriver node;
  node.Run();
  node.FailToSave(0, 10, 1, "disk full");
  node.FailToSave(1, 20, 1, "read-only");
  EXPECT_EQ(node.supervisor().failed_checkpoints(), (FailedCheckpoints{2, 20, "read-only", "b"}));
}

TEST(SupervisorFailuresTest, OneThatWasNotHeardIsCountedByTheNumberOfTheNext) {
  SupervisorDriver node;
  node.Run();
  node.FailToSave(0, 10, 1);
  node.FailToSave(0, 40, 4);
  EXPECT_EQ(node.supervisor().failed_checkpoints().count, 4);
}

TEST(SupervisorFailuresTest, AnotherCheckpointerOfTheWorkerCountsAnew) {
  SupervisorDriver node;
  node.Run();
  node.FailToSave(0, 10, 1);
  node.FailToSave(0, 20, 2);
  node.FailToSave(0, 25, 1);
  node.FailToSave(0, 30, 3);
  EXPECT_EQ(node.supervisor().failed_checkpoints().count, 4);
}

TEST(SupervisorFailuresTest, AreAddedUpOverGenerations) {
  SupervisorDriver node;
  node.Run();
  node.FailToSave(0, 10, 2);
  node.Stop(0);
  node.End(0, ExitStatus{0, SIGTERM, false});
  node.End(1, ExitStatus{0, SIGTERM, false});
  EXPECT_EQ(node.last_stopped().failed_checkpoints.count, 2);
  node.Run(1);
  node.FailToSave(0, 10, 1);  // another process
  node.Advance(seconds(1));
  EXPECT_THAT(node.Take(), ElementsAre("g1-> Heartbeat, 3 failed"));
}

TEST(SupervisorFailuresTest, AreToldAgainOnEachSession) {
  SupervisorDriver node;
  node.Run();
  node.FailToSave(0, 10, 1);
  node.Advance(seconds(1));
  node.Lose();
  node.FailToSave(0, 20, 2);
  node.Take();
  node.Open();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join, running, 2 failed"));
  node.Live(seconds(2), true);
  EXPECT_THAT(node.Take(), IsEmpty()) << "the Join said it";
}

// The job may be over after the end of its last worker.
TEST(SupervisorFailuresTest, AreToldBeforeAWorkersEnd) {
  SupervisorDriver node;
  node.Run();
  node.FailToSave(0, 10, 1);
  node.End(0);
  node.End(1);
  EXPECT_THAT(node.Take(),
              ElementsAre("g0-> Heartbeat, 1 failed", "g0-> WorkerExited 2 exit code 0",
                          "g0-> WorkerExited 3 exit code 0"));
}

TEST(SupervisorFailuresTest, AreToldBeforeTheAgentLeaves) {
  SupervisorDriver node;
  node.Run();
  node.Signal(SIGTERM);
  node.Take();
  node.FailToSave(0, 10, 1);
  node.End(0);
  node.End(1);
  EXPECT_THAT(node.Take(),
              ElementsAre("g0-> Heartbeat, 1 failed", "g0-> Leave 143", "Exit 143 left"));
  EXPECT_EQ(node.verdict().failed_checkpoints, (FailedCheckpoints{1, 10, "disk full", "b"}))
      << "what this node knows";
}

TEST(SupervisorFailuresTest, AreToldWhereThereIsNoLeaseToo) {
  SupervisorDriver node(SupervisorDriver::WithoutLeases());
  node.Run();
  node.Live(seconds(5), false);
  EXPECT_THAT(node.heartbeats(), IsEmpty());
  node.FailToSave(0, 10, 1);
  node.Live(seconds(5), false);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Heartbeat, 1 failed"));
  node.FailToSave(0, 20, 2);
  node.FailToSave(0, 30, 3);
  node.Live(milliseconds(500), false);
  node.FailToSave(0, 40, 4);
  node.Live(seconds(5), false);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Heartbeat, 3 failed", "g0-> Heartbeat, 4 failed"))
      << "no more often than heartbeats";
}

TEST(SupervisorFailuresTest, TheVerdictHasThoseOfTheJob) {
  SupervisorDriver node;
  node.Run();
  node.FailToSave(0, 10, 1);
  Finished finished{Outcome::kFailed, 3, "because", 0, {}, {}};
  finished.failed_checkpoints = {5, 30, "quota", "a"};
  node.Receive(0, finished);
  node.End(0);
  node.End(1);
  EXPECT_EQ(node.verdict().failed_checkpoints, finished.failed_checkpoints);
}

TEST(SupervisorFailuresTest, TheSumHasABound) {
  SupervisorDriver node;
  node.Run();
  node.FailToSave(0, 10, kMaxCheckpointFailures);
  node.FailToSave(1, 10, kMaxCheckpointFailures);
  EXPECT_EQ(node.supervisor().failed_checkpoints().count, kMaxCheckpointFailures);
}

// ---- the rendezvous ----

FailedCheckpoints Total(JobMachineDriver& job) {
  return job.machine().Status(job.now()).failed_checkpoints;
}

TEST(JobMachineFailuresTest, AreAnEventEachWithTheSumOfTheJob) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 9));
  job.RunTwoNodes();
  job.TakeEvents();
  job.BeatWithFailures('a', 1, 10);
  job.BeatWithFailures('b', 2, 20);
  job.BeatWithFailures('b', 2, 20);
  const auto events = job.TakeEvents();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].kind, JobEvent::Kind::kCheckpointFailed);
  EXPECT_EQ(events[1].host, "b");
  EXPECT_EQ(events[1].step, 20);
  EXPECT_EQ(events[1].reason, "disk full");
  EXPECT_EQ(events[1].failed_checkpoints, 3);
  EXPECT_EQ(Total(job), (FailedCheckpoints{3, 20, "disk full", "b"}));
}

// An agent that was silent for longer than its lease joins again with its earlier reports.
TEST(JobMachineFailuresTest, OfANodeThatWasLostAreNotCountedTwiceWhenItIsBack) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 9));
  job.RunTwoNodes();
  job.BeatWithFailures('b', 2);
  job.Gone('b');
  Join join{job.spec(), {"b", "10.0.0.b", 2}, 1000};
  join.failed_checkpoints = {3, 30, "disk full"};
  job.Receive('b', join, Generation{0});
  EXPECT_EQ(Total(job).count, 3);
}

TEST(JobMachineFailuresTest, AreToldToEveryAgentAtTheEnd) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 0));
  job.RunTwoNodes();
  job.BeatWithFailures('a', 4, 40);
  job.Exit('b', 2, 0, ExitStatus{3, 0, false});
  job.Drain('a');
  job.Drain('b');
  EXPECT_EQ(job.last_finished().failed_checkpoints, (FailedCheckpoints{4, 40, "disk full", "a"}));
}

TEST(JobMachineFailuresTest, OfAnEarlierEpochAreNotThisOnes) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 9));
  job.RunTwoNodes();
  job.BeatWithFailures('a', 4);
  job.JoinOfEpoch('c', 1);
  EXPECT_EQ(Total(job), FailedCheckpoints());
}

// Reports since the last record are repeated: agents report everything when they come back.
TEST(JobMachineFailuresTest, ARestartedRendezvousCountsOnceWhatItsRecordLacks) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 9));
  job.RunTwoNodes();
  job.BeatWithFailures('a', 1);
  job.Exit('b', 2, 0, ExitStatus{3, 0, false});
  job.Drain('a');
  job.Drain('b');  // generation 1 is recorded
  job.Prepare('a');
  job.Prepare('b');
  job.BeatWithFailures('a', 3);
  job.RestartDaemon(seconds(1));
  EXPECT_EQ(Total(job).count, 1);
  Join join{job.spec(), {"a", "10.0.0.a", 2}, 1000, true};
  join.failed_checkpoints = {3, 30, "disk full"};
  job.Receive('a', join, Generation{1});
  EXPECT_EQ(Total(job).count, 3);
}

// ---- snapshots in memory ----

void BeatWithSnapshots(JobMachineDriver& job, char agent, std::int64_t failed) {
  Heartbeat heartbeat;
  heartbeat.usage.emplace().failed_snapshots = failed;
  job.Receive(agent, heartbeat);
}

std::int64_t Snapshots(JobMachineDriver& job) {
  return job.machine().Status(job.now()).measured.counters.failed_snapshots;
}

TEST(JobMachineSnapshotsTest, ThatFailedAreCountedOverAllNodes) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 9));
  job.RunTwoNodes();
  EXPECT_EQ(Snapshots(job), 0);
  BeatWithSnapshots(job, 'a', 1);
  BeatWithSnapshots(job, 'b', 2);
  BeatWithSnapshots(job, 'b', 2);
  EXPECT_EQ(Snapshots(job), 3) << "an agent repeats what it has told";
  BeatWithSnapshots(job, 'b', 5);
  EXPECT_EQ(Snapshots(job), 6);
}

// If the counter began with the earlier failures, it would raise an alert.
TEST(JobMachineSnapshotsTest, OfARendezvousBeforeAreNotCountedAgain) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 9));
  job.RunTwoNodes();
  BeatWithSnapshots(job, 'a', 4);
  job.RestartDaemon(seconds(1));
  job.Receive('a', Join{job.spec(), {"a", "10.0.0.a", 2}, 1000, true, true}, Generation{0});
  BeatWithSnapshots(job, 'a', 4);
  EXPECT_EQ(Snapshots(job), 0);
  BeatWithSnapshots(job, 'a', 6);
  EXPECT_EQ(Snapshots(job), 2);
}

}  // namespace failed_checkpoints_test
}  // namespace ddprun
