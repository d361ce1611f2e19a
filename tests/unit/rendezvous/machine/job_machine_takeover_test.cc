// Tests a JobMachine that begins while another rendezvous may still acknowledge heartbeats
// (JobMachineOptions::leases_from).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "rendezvous/machine/job_machine.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace job_machine_takeover_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr milliseconds kHold{5500};
constexpr ExitStatus kCode3{3, 0, false};

// Two nodes run generation 0, and the lease is 3 s. The job can continue with one of them.
class JobMachineTakeoverTest : public testing::Test {
 protected:
  JobMachineTakeoverTest() { job.RunTwoNodes(); }

  void TakeOver() { job.TakeOver(kHold); }
  // `a` sends heartbeats until this time after the takeover.
  void LiveUntil(Duration since_takeover) {
    for (; passed + seconds(1) < since_takeover; passed += seconds(1)) {
      job.Advance(seconds(1));
      job.Beat('a');
    }
    job.Advance(since_takeover - passed);
    job.Beat('a');
    passed = since_takeover;
  }

  JobMachineDriver job{JobMachineDriver::Spec(1, 2, 3)};
  Duration passed{};
};

// Seen red with a LoseSilent() that counts from `heard` alone.
TEST_F(JobMachineTakeoverTest, ASilentMemberKeepsItsRanksForTheHoldAndOneLease) {
  TakeOver();
  job.Rejoin('a', 0, true);
  job.Clear();
  LiveUntil(kHold + seconds(3) - milliseconds(1));
  EXPECT_THAT(job.Take(), IsEmpty());
  EXPECT_EQ(job.machine().NextDeadline(), job.now() + milliseconds(1));
  job.Advance(milliseconds(1));
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop"));
  EXPECT_THAT(job.TakeNotes(), Contains("lost b: nothing heard for 8.5 s"));
}

TEST_F(JobMachineTakeoverTest, AMemberThatCameBackAndIsSilentAgainIsHeldToo) {
  TakeOver();
  job.Rejoin('a', 0, true);
  job.Rejoin('b', 0, true);
  job.Break('b');  // its session may move to the earlier rendezvous
  EXPECT_THAT(job.TakeNotes(), Contains(HasSubstr("it has 8.5 s to come back")));
  job.Clear();
  LiveUntil(kHold + seconds(3) - milliseconds(1));
  EXPECT_THAT(job.Take(), IsEmpty());
  job.Advance(milliseconds(1));
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop"));
}

TEST_F(JobMachineTakeoverTest, AMemberThatWasHeardAfterTheHoldHasOneLeaseFromThere) {
  TakeOver();
  job.Rejoin('a', 0, true);
  job.Rejoin('b', 0, true);
  job.Clear();
  LiveUntil(seconds(7));
  job.Beat('b');
  LiveUntil(seconds(10) - milliseconds(1));
  EXPECT_THAT(job.Take(), IsEmpty());
  job.Advance(milliseconds(1));
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop"));
}

TEST_F(JobMachineTakeoverTest, WhoseWorkersAreSaidToBeGoneIsNotWaitedFor) {
  TakeOver();
  job.Rejoin('a', 0, true);
  job.Clear();
  job.Gone('b');
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Stop"));
  job.Drain('a');
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("a<-g1 Assignment node 0/1")));
}

// After a takeover thousands of agents must be answered before their leases end. Seen red with a
// Start for each agent.
TEST_F(JobMachineTakeoverTest, WhoTrainsOnGetsTheAnswerToItsHeartbeatAlone) {
  TakeOver();
  job.Clear();
  job.Rejoin('a', 0, true);
  EXPECT_THAT(job.Take(), IsEmpty());
  job.Rejoin('b', 0, false);
  EXPECT_THAT(job.Take(), ElementsAre("b<-g0 Start"));
}

// This leader has assigned ranks to `a`, and then the earlier leader started the workers of `a`.
// Seen red when the phase of `a` did not change: the job waited for these workers for ever.
TEST_F(JobMachineTakeoverTest, WhoseWorkersAnotherLeaderHasStartedCounts) {
  TakeOver();
  job.Rejoin('a', -1, false);
  job.Rejoin('b', 0, true);
  job.Rejoin('a', 0, true);
  job.Clear();
  job.Exit('a', 0, 0, kCode3);
  EXPECT_THAT(job.Take(), Contains("b<-g0 Stop"));
}

// An agent may ignore the end, because its lease under a leader of another etcd cluster is not
// over. Seen red when its heartbeats were not answered: nothing made it join again.
TEST_F(JobMachineTakeoverTest, AfterTheEndHeartbeatsAreAnsweredAndJoinsAreTold) {
  job.AskStop(false);
  for (const char agent : {'a', 'b'}) job.Drain(agent);
  TakeOver();
  job.Clear();
  job.Rejoin('a', 0, false);
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("Finished")));
  job.ShowAcks();
  job.Beat('a');
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("Ack")));
  job.Rejoin('a', 0, false);
  EXPECT_THAT(job.Take(), ElementsAre(HasSubstr("Finished")));
}

TEST_F(JobMachineTakeoverTest, AStoppedNodeIsNotWaitedFor) {
  TakeOver();
  job.Rejoin('a', 0, true);
  job.Rejoin('b', 0, true);
  job.Exit('a', 0, 0, kCode3);
  job.Drain('a');
  job.Clear();
  job.Drain('b');
  EXPECT_THAT(job.Take(), Contains(HasSubstr("a<-g1 Assignment node 0/2")));
}

TEST_F(JobMachineTakeoverTest, WhereNobodyIsRecordedNothingFormsBeforeTheHoldAndOneLease) {
  JobRecord record = *job.record();
  record.members.clear();
  JobMachineOptions options;
  options.leases_from = job.now() + kHold;
  JobMachine machine("job", record, job.now(), options);
  EXPECT_EQ(machine.NextDeadline(), job.now() + kHold + seconds(3));
}

// The forming of generation 0 was recorded, but no agent had its assignment when the leader
// changed. `b` may have gone back to the earlier rendezvous, which may have started its workers.
// Seen red with a FreeUnstarted() that only calls Free().
TEST(JobMachineTakeoverFormingTest, WhoHadNotHeardOfTheGenerationIsHeldWhereItEnds) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2, 3));
  job.Join('a');
  job.Join('b');
  job.TakeOver(kHold);
  job.Clear();
  job.Rejoin('a', -1, false);
  job.Rejoin('b', -1, false);
  EXPECT_THAT(job.Take(),
              ElementsAre(HasSubstr("a<-g0 Assignment"), HasSubstr("b<-g0 Assignment")));
  job.Prepare('a');
  job.Exit('a', 0, 0, kCode3);
  job.Drain('a');
  job.Clear();
  for (int i = 0; i < 8; ++i) {
    job.Advance(seconds(1));
    for (const char agent : {'a', 'b'}) job.Beat(agent);
  }
  EXPECT_THAT(job.Take(), testing::Not(Contains(HasSubstr("Assignment"))));
  job.Advance(milliseconds(500));
  EXPECT_THAT(job.Take(), Contains(HasSubstr("a<-g1 Assignment node 0/2")));
}

TEST(JobMachineTakeoverFormingTest, WhoAnswersTheAssignmentGoesOnAtOnce) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2, 3));
  job.Join('a');
  job.Join('b');
  job.TakeOver(kHold);
  for (const char agent : {'a', 'b'}) job.Rejoin(agent, -1, false);
  job.Clear();
  for (const char agent : {'a', 'b'}) job.Prepare(agent);
  EXPECT_THAT(job.Take(), ElementsAre("a<-g0 Start", "b<-g0 Start"));
  job.Exit('a', 0, 0, kCode3);
  job.Drain('a');
  job.Clear();
  job.Drain('b');
  EXPECT_THAT(job.Take(), Contains(HasSubstr("a<-g1 Assignment node 0/2")));
}

// Fails without WhyLeaseIsRefused().
TEST(JobMachineLeaseTest, OneOfSeveralRefusesALeaseThatIsTooShortOrTooLong) {
  JobMachineOptions options;
  options.shortest_lease = seconds(3);
  options.longest_lease = seconds(60);
  for (const auto& [lease, refused] :
       {std::pair(seconds(2), true), std::pair(seconds(3), false), std::pair(seconds(60), false),
        std::pair(seconds(61), true)}) {
    JobMachine machine("job", 0, options);
    Join join{JobMachineDriver::Spec(1, 2, 3), {"n1", "10.0.0.1", 1}, 4000, false, false};
    join.job.lease = lease;
    const auto actions = machine.Step(
        JobMachine::Received{{"job", 0, Generation{-1}, AgentId{1}}, join}, TimePoint(seconds(9)));
    const bool has = std::any_of(actions.begin(), actions.end(), [](const auto& action) {
      const auto* const send = std::get_if<JobMachine::Send>(&action);
      return send != nullptr && std::holds_alternative<Refused>(send->message);
    });
    EXPECT_EQ(has, refused) << lease.count();
  }
}

// ---- etcd was restored, or emptied: agents may run generations that no record has ----

// Lets `duration` pass in steps of 500 ms. In each step `agents` send a heartbeat.
void Live(JobMachineDriver& job, Duration duration, const std::string& agents) {
  for (Duration passed{}; passed < duration; passed += milliseconds(500)) {
    job.Advance(std::min<Duration>(milliseconds(500), duration - passed));
    for (const char agent : agents) job.Beat(agent);
  }
}

// Fails if Begin() does not make the job wait.
TEST(JobMachineRestoredTest, AJobThatIsNotRecordedFormsAfterTheHoldAndOneLease) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2, 3));
  job.RunTwoNodes();
  job.TakeOverRestored(kHold, /*emptied=*/true);
  job.Clear();
  job.Join('c');  // a new agent, which was in no generation of the job
  job.Join('d');
  EXPECT_THAT(job.Take(), IsEmpty());
  Live(job, kHold + seconds(3) - milliseconds(1), "cd");
  EXPECT_THAT(job.Take(), testing::Not(Contains(HasSubstr("Assignment"))));
  job.Advance(milliseconds(1));
  EXPECT_THAT(job.Take(), Contains(HasSubstr("c<-g0 Assignment node 0/2")));
}

// `a` and `b` are in generation 0 by the record, but it may be old: others may run generation 1.
// Fails if the record is believed.
TEST(JobMachineRestoredTest, NobodyGetsTheRanksOfARecordBeforeThat) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2, 3));
  job.Join('a');
  job.Join('b');
  job.TakeOverRestored(kHold, /*emptied=*/false);
  job.Clear();
  for (const char agent : {'a', 'b'}) job.Rejoin(agent, -1, false);
  Live(job, kHold + seconds(3) - milliseconds(1), "ab");
  for (const std::string& text : job.Take()) {
    EXPECT_THAT(text, testing::Not(testing::AnyOf(HasSubstr("Assignment"), HasSubstr("Start"))));
  }
  job.Advance(milliseconds(1));
  EXPECT_THAT(job.Take(), Contains(HasSubstr("a<-g1 Assignment node 0/2")));
}

// Fails if the hold begins with each job.
TEST(JobMachineRestoredTest, AJobThatBeginsLaterDoesNotWait) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 2, 3));
  job.RunTwoNodes();
  job.TakeOverRestored(kHold, /*emptied=*/true);
  job.Advance(kHold + seconds(3));
  job.Clear();
  job.Join('c');
  job.Join('d');
  EXPECT_THAT(job.Take(), Contains(HasSubstr("c<-g0 Assignment node 0/2")));
}

}  // namespace job_machine_takeover_test
}  // namespace ddprun
