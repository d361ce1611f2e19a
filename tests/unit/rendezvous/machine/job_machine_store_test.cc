// Tests who serves torch's store: rank 0's agent, or rank 0's worker if a program turns out to need
// the worker's own store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace job_machine_store_test {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr ExitStatus kCode1{1, 0, false};

JobSpec Spec() {
  JobSpec spec = JobMachineDriver::Spec(2, 2, /*max_restarts=*/0);
  spec.store = kAgentStore;
  return spec;
}

auto AreOfTheAgent(bool agents) {
  return AllOf(SizeIs(2), Each(Field(&Assignment::agent_store, agents)));
}

void StopBoth(JobMachineDriver& job) {
  job.Drain('a');
  job.Drain('b');
}

TEST(JobMachineStoreTest, TheSpecSaysWhoServesTheStore) {
  JobMachineDriver agents(Spec());
  agents.RunTwoNodes();
  EXPECT_THAT(agents.TakeAssignments(), AreOfTheAgent(true));
  JobMachineDriver workers(JobMachineDriver::Spec(2, 2));
  workers.RunTwoNodes();
  EXPECT_THAT(workers.TakeAssignments(), AreOfTheAgent(false));
}

TEST(JobMachineStoreTest, AWorkerThatFindsItsPortTakenGetsTheOtherStoreOnceAndSpendsNoRestart) {
  JobMachineDriver job(Spec());
  job.RunTwoNodes();
  job.TakeAssignments();
  job.Exit('a', 0, 0, kCode1, "bind");
  StopBoth(job);
  EXPECT_THAT(job.TakeAssignments(), AreOfTheAgent(false));
  EXPECT_EQ(job.machine().restarts_used(), 0);
  EXPECT_TRUE(job.record()->needs_worker_store);
  job.TakeNotes();
  job.Prepare('a');
  job.Prepare('b');
  job.Exit('a', 0, 0, kCode1, "bind");
  StopBoth(job);
  EXPECT_THAT(job.TakeNotes(), Not(Contains(HasSubstr("--store worker")))) << "said before";
}

TEST(JobMachineStoreTest, SoDoesOneThatLooksForTheStoreElsewhere) {
  JobMachineDriver job(Spec());
  job.RunTwoNodes();
  job.TakeAssignments();
  job.Receive('b', StoreElsewhere{"localhost:29501"});
  EXPECT_THAT(job.TakeNotes(),
              Contains(HasSubstr("a worker on b looks for torch's store at localhost:29501, not at "
                                 "MASTER_PORT: rank 0's worker serves the store from the next "
                                 "generation on, and no restart is spent; --store worker does so "
                                 "from the start")));
  job.Receive('a', StoreElsewhere{"localhost:29501"});
  EXPECT_THAT(job.TakeNotes(), Not(Contains(HasSubstr("--store worker")))) << "said before";
  StopBoth(job);
  EXPECT_THAT(job.TakeAssignments(), AreOfTheAgent(false));
  EXPECT_EQ(job.machine().restarts_used(), 0);
}

// Agents of generations under the next daemon must agree with earlier agents.
TEST(JobMachineStoreTest, ARendezvousThatIsStartedAgainKnowsIt) {
  JobMachineDriver job(Spec());
  job.RunTwoNodes();
  job.Receive('b', StoreElsewhere{"localhost:29501"});
  StopBoth(job);
  job.Prepare('a');
  job.Prepare('b');
  job.RestartDaemon(std::chrono::seconds(1));
  job.Rejoin('a', 1, true);
  job.Rejoin('b', 1, true);
  job.TakeAssignments();
  job.Gone('b');
  job.Drain('a');
  job.Join('b');
  EXPECT_THAT(job.TakeAssignments(), AreOfTheAgent(false));
}

TEST(JobMachineStoreTest, StatusSaysWhoIsMissingAtTheStoreUntilAllHaveCome) {
  JobMachineDriver job(Spec());
  job.RunTwoNodes();
  const auto arrivals = [&] { return job.machine().Status(job.now()).arrivals; };
  EXPECT_FALSE(arrivals());
  Heartbeat heartbeat;
  heartbeat.arrivals = StoreArrivals{2, {Rank{1}, Rank{3}}};
  job.Receive('b', heartbeat);
  EXPECT_FALSE(arrivals()) << "it has no store";
  job.Receive('a', heartbeat);
  ASSERT_TRUE(arrivals());
  EXPECT_EQ(Describe(*arrivals(), 4), "2 of 4 ranks are in init(); missing 1 on a and 3 on b");
  job.Beat('a');
  EXPECT_FALSE(arrivals()) << "all have come";
}

}  // namespace job_machine_store_test
}  // namespace ddprun
