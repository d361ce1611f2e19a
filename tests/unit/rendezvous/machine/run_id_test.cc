// Tests run ids: which run of a job a generation belongs to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "tests/unit/launcher/core/supervisor_driver.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace run_id_test {

using std::chrono::seconds;

constexpr ExitStatus kKilled{0, SIGKILL, false};

// The run id of all assignments since the last call; all have the same one, and it is not 0.
RunId TakeRun(JobMachineDriver& job) {
  const auto assignments = job.TakeAssignments();
  EXPECT_FALSE(assignments.empty());
  for (const Assignment& assignment : assignments) {
    EXPECT_EQ(assignment.run_id, assignments.front().run_id);
    EXPECT_NE(assignment.run_id, RunId{});
  }
  return assignments.empty() ? RunId{} : assignments.front().run_id;
}

void FailAGeneration(JobMachineDriver& job) {
  job.Exit('b', 3, 1, kKilled);
  job.Drain('a');
  job.Drain('b');
  job.Prepare('a');
  job.Prepare('b');
}

JobMachineOptions WithSeed(std::uint64_t seed) {
  JobMachineOptions options;
  options.seed = seed;
  return options;
}

// Seen red when each forming drew a new id.
TEST(RunIdTest, AllGenerationsOfARunHaveItAlsoAfterARestartOfTheRendezvous) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 9), WithSeed(1));
  job.RunTwoNodes();
  const RunId run = TakeRun(job);
  FailAGeneration(job);
  EXPECT_EQ(TakeRun(job), run);
  EXPECT_EQ(job.record()->run_id, run);
  job.RestartDaemon(seconds(1));
  job.Rejoin('a', 1, true);
  job.Rejoin('b', 1, true);
  FailAGeneration(job);
  EXPECT_EQ(TakeRun(job), run);
}

// With --start-anew an agent believes that all files of its first scan are of an earlier job. So an
// agent that joins late must scan again with the run id, which shows the files of this job.
TEST(RunIdTest, AnAgentThatComesLateLooksAgainKnowingTheRun) {
  for (const bool start_anew : {false, true}) {
    JobSpec spec = JobMachineDriver::Spec(1, 2);
    spec.start_anew = start_anew;
    spec.last_call = seconds(1);  // no heartbeat is needed until then
    JobMachine machine("job", 0, WithSeed(1));
    TimePoint now{std::chrono::hours(1)};
    RunId assigned;
    RunId looks;
    const auto step = [&](const JobMachine::Event& event) {
      for (const auto& action : machine.Step(event, now)) {
        const auto* const send = std::get_if<JobMachine::Send>(&action);
        if (send == nullptr) continue;
        if (const auto* a = std::get_if<Assignment>(&send->message)) assigned = a->run_id;
        if (const auto* again = std::get_if<LookAgain>(&send->message)) looks = again->run_id;
      }
    };
    const auto join = [&](std::uint64_t agent) {
      Join join{spec, NodeSpec{absl::StrCat("n", agent), "10.0.0.1", 1}, 1000};
      join.can_look_again = true;
      step(JobMachine::Received{Header{"job", 0, Generation{-1}, AgentId{agent}}, join});
    };
    join(1);
    now += spec.last_call;
    step(JobMachine::Tick{});
    ASSERT_NE(assigned, RunId{});
    EXPECT_EQ(looks, RunId{}) << "it is the job's first";
    join(2);
    EXPECT_EQ(looks, start_anew ? assigned : RunId{});
  }
}

TEST(RunIdTest, AnotherRendezvousDrawsAnotherOne) {
  JobMachineDriver one(JobMachineDriver::Spec(2, 2), WithSeed(1));
  JobMachineDriver another(JobMachineDriver::Spec(2, 2), WithSeed(2));
  one.RunTwoNodes();
  another.RunTwoNodes();
  EXPECT_NE(TakeRun(one), TakeRun(another));
}

TEST(RunIdTest, OtherAgentsAreAnotherRun) {
  JobMachineDriver one(JobMachineDriver::Spec(1, 1), WithSeed(1));
  JobMachineDriver another(JobMachineDriver::Spec(1, 1), WithSeed(1));
  one.Join('a');
  another.Join('b');
  EXPECT_NE(TakeRun(one), TakeRun(another));
}

// It does not matter which agent comes first. Seen red without TakeUpRun(): the job's own
// checkpoints counted as those of another training.
TEST(RunIdTest, ARendezvousThatHasForgottenTheJobTakesItUpFromItsAgents) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2, 9), WithSeed(1));
  job.Join('c');  // a newcomer without a run id
  job.JoinWithRun('a', RunId{77}, 4);
  for (int i = 0; i < 5; ++i) {  // the leases of the earlier run
    job.Advance(seconds(1));
    job.Beat('a');
    job.Beat('c');
  }
  EXPECT_EQ(TakeRun(job), RunId{77});
  EXPECT_GT(job.machine().generation().value, 4);
}

TEST(RunIdTest, ARequeuedJobIsAnotherRun) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1), WithSeed(1));
  job.Join('a');
  const RunId run = TakeRun(job);
  job.JoinOfEpoch('b', 1);
  for (int i = 0; i < 5; ++i) {
    job.Advance(seconds(1));
    job.BeatOfEpoch('b', 1);
  }
  EXPECT_NE(TakeRun(job), run);
}

TEST(RunIdTest, AnAgentPresentsItFromItsFirstAssignmentOn) {
  SupervisorDriver node;
  EXPECT_EQ(node.last_join().run_id, RunId{});
  Assignment assignment;
  assignment.node_count = 1;
  assignment.world_size = 2;
  assignment.master_addr = "10.0.0.b";
  assignment.master_port = 1001;
  assignment.run_id = RunId{77};
  node.Receive(0, assignment);
  node.Lose();
  node.Open();
  EXPECT_EQ(node.last_join().run_id, RunId{77});
}

}  // namespace run_id_test
}  // namespace ddprun
