// Tests JobMachine with a node that joins a running job: the other nodes continue until standbys of
// the new node have loaded the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace newcomer_standbys_test {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string StateOf(JobMachineDriver& job, const std::string& host) {
  for (const NodeStatus& node : job.machine().Status(job.now()).nodes) {
    if (node.host == host) return node.state;
  }
  return "";
}

class NewcomerStandbysTest : public testing::Test {
 protected:
  NewcomerStandbysTest() {
    job_.Join('a');
    job_.Advance({});  // the last call is over
    job_.Prepare('a');
    job_.Clear();
  }

  // Two nodes at most, so a newcomer is taken in at once.
  static JobSpec Spec() {
    JobSpec spec = JobMachineDriver::Spec(1, 2, /*max_restarts=*/1);
    spec.last_call = Duration{};
    return spec;
  }
  // Time passes. Both nodes send heartbeats.
  void Live(seconds time) {
    for (; time > seconds(0); time -= seconds(1)) {
      job_.Advance(seconds(1));
      job_.Beat('a');
      job_.Beat('b');
    }
  }

  JobMachineDriver job_{Spec()};
};

TEST_F(NewcomerStandbysTest, TheJobGoesOnUntilTheStandbysWait) {
  job_.BeatOfOneThatCanStandBy('a');
  job_.Clear();
  job_.JoinAndStartStandbys('b');
  EXPECT_THAT(job_.Take(), ElementsAre("b<-g0 Waiting, start standbys"));
  EXPECT_EQ(StateOf(job_, "b"), "waiting: its standbys load the program");
  Live(seconds(59));
  EXPECT_EQ(job_.machine().state(), JobState::kRunning);
  job_.Clear();
  job_.Receive('b', StandbysReady{});
  EXPECT_THAT(job_.Take(), ElementsAre("b<-g0 Waiting", "a<-g0 Stop"));
}

// Break: leave out the limit. Then an agent that does not answer stays out for ever.
TEST_F(NewcomerStandbysTest, AfterAMinuteTheNodeIsTakenInAnyway) {
  job_.BeatOfOneThatCanStandBy('a');
  job_.JoinAndStartStandbys('b');
  Live(seconds(59));
  job_.Clear();
  job_.Advance(seconds(1));
  EXPECT_THAT(job_.Take(), Contains("a<-g0 Stop"));
  EXPECT_THAT(job_.TakeNotes(), Contains("b is taken in, although its standbys have not loaded "
                                         "the program within 60 s"));
}

TEST_F(NewcomerStandbysTest, ANewSessionAsksAgainAndItsAnswerCounts) {
  job_.BeatOfOneThatCanStandBy('a');
  job_.JoinAndStartStandbys('b');
  job_.Break('b');
  job_.Clear();
  job_.JoinAndStartStandbys('b');
  EXPECT_THAT(job_.Take(), ElementsAre("b<-g0 Waiting, start standbys"));
  job_.Receive('b', StandbysReady{});
  EXPECT_THAT(job_.Take(), ElementsAre("b<-g0 Waiting", "a<-g0 Stop"));
}

// Break: ask without having heard it. Then a program that cannot wait trains a second time.
TEST_F(NewcomerStandbysTest, NobodyIsAskedWhileNoWorkerHasShownThatTheProgramCanWait) {
  job_.Beat('a');
  job_.Clear();
  job_.JoinAndStartStandbys('b');
  EXPECT_THAT(job_.Take(), ElementsAre("b<-g0 Waiting", "a<-g0 Stop"));
}

TEST_F(NewcomerStandbysTest, AnAgentThatDoesNotKnowTheRequestIsTakenInAtOnce) {
  job_.BeatOfOneThatCanStandBy('a');
  job_.Clear();
  job_.Join('b');
  EXPECT_THAT(job_.Take(), ElementsAre("b<-g0 Waiting", "a<-g0 Stop"));
}

TEST_F(NewcomerStandbysTest, ASecondAnswerChangesNothing) {
  job_.BeatOfOneThatCanStandBy('a');
  job_.JoinAndStartStandbys('b');
  job_.Receive('b', StandbysReady{});
  job_.Clear();
  job_.Receive('b', StandbysReady{});
  EXPECT_THAT(job_.Take(), IsEmpty());
}

// Break: keep the node out. Then the job forms again without a node that is there, and goes on with
// fewer nodes until its next checkpoint.
TEST_F(NewcomerStandbysTest, ANodeThatLoadsIsInTheNextGenerationIfThisOneEnds) {
  job_.BeatOfOneThatCanStandBy('a');
  job_.JoinAndStartStandbys('b');
  job_.Exit('a', 0, 0, ExitStatus{0, SIGSEGV, false});
  job_.Clear();
  job_.Drain('a');
  job_.Advance({});
  EXPECT_THAT(job_.TakeText(), HasSubstr("b<-g1 Assignment node 1/2"));
}

// Break: ask all. Then a spare keeps processes for days that nobody asked for.
TEST_F(NewcomerStandbysTest, ASpareStartsNoStandbys) {
  job_.Join('b');
  job_.Drain('a');
  job_.Prepare('a');
  job_.Prepare('b');
  job_.BeatOfOneThatCanStandBy('a');
  job_.Clear();
  job_.JoinAndStartStandbys('c');
  EXPECT_THAT(job_.Take(), ElementsAre("c<-g1 Waiting"));
}

// Break: ask whatever the role. Then a program that cannot wait does its work in the standby.
TEST_F(NewcomerStandbysTest, TheProgramOfAnotherRoleIsNotKnownToWait) {
  job_.BeatOfOneThatCanStandBy('a');
  job_.Clear();
  Join join{job_.spec(), {"b", "10.0.0.b", 2}, 1};
  join.can_start_standbys = true;
  join.program.role = "reader";
  job_.Receive('b', join);
  EXPECT_THAT(job_.Take(), ElementsAre("b<-g0 Waiting", "a<-g0 Stop"));
}

}  // namespace newcomer_standbys_test
}  // namespace ddprun
