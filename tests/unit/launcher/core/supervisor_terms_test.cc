// An agent whose rendezvous is one of several: docs/ha.md. The lease is 3 s, the heartbeat 1 s. The
// agent fences itself 2.5 s after it sent the newest message that was answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstddef>

#include "launcher/core/supervisor.h"
#include "tests/unit/launcher/core/supervisor_driver.h"

namespace ddprun {
namespace supervisor_terms_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr ExitStatus kKilled{0, SIGKILL, false};
constexpr milliseconds kFence{2500};
constexpr milliseconds kTick{1};
constexpr Term kTerm{1, 5};
constexpr Term kEarlier{1, 4};
constexpr Term kLater{1, 6};
constexpr Term kRestored{2, 3};

SupervisorOptions Leased() {
  SupervisorOptions options = SupervisorDriver::Options();
  options.spec.heartbeat = seconds(1);
  options.spec.lease = seconds(3);
  return options;
}

class SupervisorTermsTest : public testing::Test {
 protected:
  SupervisorTermsTest() { node.set_term(kTerm); }

  void Run() {
    node.Run();
    node.TakeNotes();
  }
  void KillAll() {
    node.End(0, kKilled);
    node.End(1, kKilled);
  }
  // Opens a session with the rendezvous that has this term.
  void Connect(const Term& term) {
    node.Lose();
    node.Open();
    node.set_term(term);
  }

  SupervisorDriver node{Leased()};
};

TEST_F(SupervisorTermsTest, TheFirstTermIsNoNews) {
  Run();
  node.Live(seconds(60), true);
  EXPECT_THAT(node.Take(), IsEmpty());
  EXPECT_THAT(node.TakeNotes(), IsEmpty());
}

TEST_F(SupervisorTermsTest, AHigherTermIsObeyedAndSaidOnce) {
  Run();
  Connect(kLater);
  node.Live(seconds(60), true);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kRunning);
  EXPECT_THAT(node.TakeNotes(), Contains("another rendezvous leads: term 6").Times(1));
}

// Seen red when the heartbeat waited for its usual time.
TEST_F(SupervisorTermsTest, AnotherLeaderIsAskedForAnAcknowledgementAtOnce) {
  Run();
  node.Live(milliseconds(300), true);
  const std::size_t before = node.heartbeats().size();
  Connect(kLater);
  ASSERT_EQ(node.heartbeats().size(), before + 1);
  EXPECT_EQ(node.heartbeats().back().sent_at,
            std::chrono::nanoseconds(node.now().time_since_epoch()).count());
}

// The same rendezvous leads: it has taken over from itself, to lower the longest validity.
TEST_F(SupervisorTermsTest, AHigherTermOnTheSameSessionIsNoNews) {
  Run();
  node.set_term(kLater);
  node.Live(seconds(60), true);
  EXPECT_THAT(node.TakeNotes(), IsEmpty());
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kRunning);
}

// Seen red when the Supervisor obeyed every term.
TEST_F(SupervisorTermsTest, WordsOfAPastLeaderAreNoContact) {
  for (const Term& past : {kEarlier, Term{}}) {
    SupervisorDriver one(Leased());
    one.set_term(kTerm);
    one.Run();
    one.TakeNotes();
    one.Lose();
    one.Open();
    one.set_term(past);
    one.Take();
    one.Live(kFence - kTick, true);
    EXPECT_THAT(one.Take(), IsEmpty());
    one.Live(kTick, true);
    EXPECT_THAT(one.Take(), ElementsAre("SIGKILL to 0,1"));
    EXPECT_THAT(one.TakeNotes(),
                Contains(HasSubstr("is not obeyed: the leader has term 5")).Times(1));
  }
}

TEST_F(SupervisorTermsTest, APastLeaderCanNeitherStopNorRefuse) {
  Run();
  Connect(kEarlier);
  node.Take();
  node.Stop(0);
  node.Refuse();
  node.Receive(0, Fenced{"unknown"});
  node.Finish(Outcome::kFailed, 1);
  EXPECT_THAT(node.Take(), IsEmpty());
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kRunning);
}

// Seen red when a session counted as contact, although the agent obeyed nothing on it.
TEST_F(SupervisorTermsTest, WhoHearsOnlyAPastLeaderGivesUp) {
  Run();
  node.Live(seconds(600), true);
  Connect(kEarlier);
  node.Live(seconds(3), true);
  KillAll();
  node.Live(seconds(297) - kTick, true);
  EXPECT_FALSE(node.supervisor().ended());
  node.Live(kTick, true);
  EXPECT_EQ(node.verdict().outcome, Outcome::kUnreachable);
}

// ---- refused connections ----

// Seen red when OnSessionLost called Had() even after a term was seen.
TEST_F(SupervisorTermsTest, ARefusedConnectionIsNoContactOnceATermWasSeen) {
  Run();
  node.Lose();
  node.Live(seconds(2), false);
  node.BeRefused();
  node.Live(milliseconds(500), false);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
}

TEST_F(SupervisorTermsTest, WithSeveralEndpointsItIsNoneFromTheStart) {
  SupervisorOptions options = Leased();
  options.several = true;
  SupervisorDriver one(options);
  one.set_term(kTerm);
  one.Run();
  one.Lose();
  one.Live(seconds(2), false);
  one.BeRefused();
  one.Live(milliseconds(500), false);
  EXPECT_THAT(one.Take(), ElementsAre("SIGKILL to 0,1"));
}

// With several endpoints, a rendezvous without a term does not lead.
// Break: let StandingOf() compare the terms first.
TEST_F(SupervisorTermsTest, WithSeveralEndpointsNothingWithoutATermIsObeyed) {
  SupervisorOptions options = Leased();
  options.several = true;
  SupervisorDriver one(options);
  one.Open();
  one.Take();
  one.Assign(0);
  EXPECT_THAT(one.Take(), IsEmpty());
  EXPECT_EQ(one.supervisor().state(), SupervisorState::kJoining);
  EXPECT_THAT(one.TakeNotes(), Contains(HasSubstr("not one of several is not obeyed")).Times(1));
  one.set_term(kTerm);
  one.Assign(0);
  EXPECT_EQ(one.supervisor().state(), SupervisorState::kSpawning);
}

// ---- another etcd cluster ----

// Seen red when terms were compared only by their revisions.
TEST_F(SupervisorTermsTest, OfAnotherClusterNothingIsObeyedBeforeTheLeaseIsOver) {
  Run();
  const TimePoint contact = node.now();
  node.Live(seconds(1), false);
  Connect(kRestored);
  node.Take();
  node.Acknowledge();
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
  EXPECT_THAT(node.TakeNotes(), Contains(AllOf(HasSubstr("another etcd cluster than before"),
                                               HasSubstr("joins anew in 2 s"))));
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kFenced);
  KillAll();
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
  node.Assign(1);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
  node.Take();
  node.Live(contact + seconds(3) - kTick - node.now(), true);
  EXPECT_THAT(node.Take(), Not(Contains(HasSubstr("Join"))));
  node.Live(seconds(1) + kTick, true);  // joins at the next answer
  EXPECT_THAT(node.Take(), Contains("g0-> Join"));
  EXPECT_THAT(node.TakeNotes(), Contains("this node joins anew, under term 3 of another etcd "
                                         "cluster"));
  node.Acknowledge();
  node.Assign(1);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kSpawning);
  // Messages of the old cluster do not count any more.
  node.set_term(kLater);
  node.Start(1);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
}

// Seen red when Contact forgot which term of the other cluster it had heard.
TEST_F(SupervisorTermsTest, APastLeaderOfAnotherClusterIsNotJoined) {
  node.Acknowledge(0);
  Connect(kRestored);
  node.Take();
  node.Acknowledge(0);
  Term past = kRestored;
  --past.revision;
  Connect(past);
  node.Take();
  node.Live(seconds(4), true);
  EXPECT_THAT(node.Take(), Not(Contains(HasSubstr("Join"))));
  EXPECT_THAT(node.TakeNotes(), Contains(HasSubstr("is not obeyed: the leader has term 3")));
}

TEST_F(SupervisorTermsTest, ANodeThatPreparesGivesItsRanksBack) {
  node.Assign(0);
  Connect(kRestored);
  node.Take();
  node.Start(0);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
  EXPECT_THAT(node.Take(), Contains(HasSubstr("Join")));
}

TEST_F(SupervisorTermsTest, ANodeThatWaitsJoinsAnewWhenItsLeaseIsOver) {
  node.Acknowledge(0);
  node.Live(seconds(1), true);
  Connect(kRestored);
  node.Take();
  node.Live(seconds(2), true);  // answers at 2 and 3 s
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Live(seconds(1), true);
  EXPECT_THAT(node.Take(), ElementsAre("g-1-> Join"));
  node.Live(seconds(10), true);
  EXPECT_THAT(node.Take(), IsEmpty());
}

// The node joins anew when a heartbeat is answered. The rendezvous answers this Join with Finished.
TEST_F(SupervisorTermsTest, AnEndThatComesBeforeTheLeaseIsOverIsHeardAgainAfterIt) {
  node.Acknowledge(0);
  node.Live(seconds(1), true);
  Connect(kRestored);
  node.Take();
  node.Finish(Outcome::kSucceeded, 0);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
  node.Live(seconds(3), false);
  node.Acknowledge(0);
  EXPECT_THAT(node.Take(), ElementsAre("g-1-> Join"));
  node.Finish(Outcome::kSucceeded, 0);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kDone);
}

TEST_F(SupervisorTermsTest, WhoLeavesHasNoGraceThen) {
  Run();
  node.Signal(SIGTERM);
  Connect(kRestored);
  node.Take();
  node.Acknowledge(0);
  node.Acknowledge(0);
  EXPECT_THAT(node.Take(), ElementsAre("SIGKILL to 0,1"));
}

}  // namespace supervisor_terms_test
}  // namespace ddprun
