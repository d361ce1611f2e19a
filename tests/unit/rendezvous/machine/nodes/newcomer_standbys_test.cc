// Tests JobMachine with a node that joins a running job: the other nodes do not wait for its
// program to load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace newcomer_standbys_test {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
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
    JobSpec spec = JobMachineDriver::Spec(1, 2);
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
  EXPECT_EQ(StateOf(job_, "b"), "waiting: its workers load the program");
  Live(seconds(59));
  EXPECT_EQ(job_.machine().state(), JobState::kRunning);
  job_.Clear();
  job_.Receive('b', StandbysReady{});
  EXPECT_THAT(job_.Take(), ElementsAre("a<-g0 Stop"));
}

// Break: leave out the limit. Then an agent that does not answer stays out for ever.
TEST_F(NewcomerStandbysTest, AfterAMinuteItIsTakenInWithoutThem) {
  job_.BeatOfOneThatCanStandBy('a');
  job_.JoinAndStartStandbys('b');
  Live(seconds(59));
  job_.Clear();
  job_.Advance(seconds(1));
  EXPECT_THAT(job_.Take(), Contains("a<-g0 Stop"));
  EXPECT_THAT(job_.TakeNotes(), Contains("b is taken in, although its workers have not loaded the "
                                         "program within 60 s"));
}

TEST_F(NewcomerStandbysTest, ANewSessionAsksAgainAndItsAnswerCounts) {
  job_.BeatOfOneThatCanStandBy('a');
  job_.JoinAndStartStandbys('b');
  job_.Break('b');
  job_.Clear();
  job_.JoinAndStartStandbys('b');
  EXPECT_THAT(job_.Take(), ElementsAre("b<-g0 Waiting, start standbys"));
  job_.Receive('b', StandbysReady{});
  EXPECT_THAT(job_.Take(), ElementsAre("a<-g0 Stop"));
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

}  // namespace newcomer_standbys_test
}  // namespace ddprun
