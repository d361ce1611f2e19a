#include "rendezvous/leadership/leadership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rendezvous/leadership/leadership_driver.h"

namespace ddprun {
namespace leadership_test {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Core = Leadership;
using Role = Leadership::Role;
using Driver = LeadershipDriver;

// Leads under term 11, after a leader with a longer validity. The hold for that one is over, and
// the write of the shorter validity is under way.
void LeadAndWriteAgain(Driver& me) {
  me.Step(Core::Tick{});
  me.See(10, Driver::RecordOf("a", seconds(5), seconds(10)));
  me.Step(Core::PeerRefused{"a:1"});
  me.AnswerPut(11);
  me.Advance(seconds(11));
  me.AnswerRenewal(11);
}

// ---- takeovers ----

TEST(LeadershipTest, TheFirstOneLeadsAtOnce) {
  Driver me;
  me.Step(Core::Tick{});
  EXPECT_THAT(me.All<Core::ReadLeader>(), SizeIs(1));
  me.See(0, std::nullopt);
  LeaderRecord record = Driver::RecordOf("me", seconds(5), seconds(5));
  record.complete_in = 0;
  EXPECT_THAT(me.All<Core::PutLeader>(), ElementsAre(Driver::PutOf(0, record)));
  me.AnswerPut(11);
  EXPECT_EQ(me.leadership().role(), Role::kLeading);
  EXPECT_EQ(me.leadership().term(), Driver::TermOf(11));
}

// Fails if the standby waits for silence.
TEST(LeadershipTest, ARefusedLinkIsATakeoverAtOnce) {
  Driver me;
  me.StandBy();
  me.Step(Core::PeerHeard{"a:1"});
  EXPECT_THAT(me.All<Core::WatchPeer>(), ElementsAre(Core::WatchPeer{"a:1"}));
  EXPECT_THAT(me.All<Core::PutLeader>(), IsEmpty());
  me.Step(Core::PeerRefused{"a:1"});
  EXPECT_THAT(me.All<Core::PutLeader>(),
              ElementsAre(Driver::PutOf(10, Driver::RecordOf("me", seconds(5), seconds(5)))));
}

// Fails if the limit of silence is longer or shorter.
TEST(LeadershipTest, SixHundredMillisecondsOfSilenceAreATakeover) {
  Driver me;
  me.StandBy();
  for (int i = 0; i < 10; ++i) {
    me.Advance(milliseconds(150));
    me.Step(Core::PeerHeard{"a:1"});
  }
  me.Advance(milliseconds(599));
  EXPECT_THAT(me.All<Core::PutLeader>(), IsEmpty());
  me.Advance(milliseconds(1));
  EXPECT_THAT(me.All<Core::PutLeader>(), SizeIs(1));
}

// Fails if OnPaused() is not called.
TEST(LeadershipTest, AStandbyThatDidNotRunHearsAgainFirst) {
  Driver me;
  me.StandBy();
  me.SetNow(me.now() + seconds(20));
  me.Step(Core::Tick{});
  EXPECT_EQ(me.leadership().role(), Role::kStandby);
  me.Advance(milliseconds(600));
  EXPECT_EQ(me.leadership().role(), Role::kTakingOver);
}

TEST(LeadershipTest, OneThatHasResignedIsFollowedAtOnce) {
  Driver by_key;
  by_key.StandBy();
  by_key.See(11, Driver::RecordOf("a", seconds(5), Duration{}, true));
  EXPECT_EQ(by_key.All<Core::PutLeader>().at(0).guard, 11U);

  Driver by_link;
  by_link.StandBy();
  by_link.Step(Core::PeerResigns{"a:1"});
  EXPECT_EQ(by_link.All<Core::PutLeader>().at(0).guard, 10U);
}

// The leader resigns over the link although its last write of the key has no answer yet. That write
// may come before ours.
TEST(LeadershipTest, OneThatIsTooQuickForTheKeyTriesAgain) {
  Driver me;
  me.StandBy();
  me.Step(Core::PeerResigns{"a:1"});
  me.FailPut();
  me.See(11, Driver::RecordOf("a", seconds(5), Duration{}, true));
  me.Advance(milliseconds(100));
  ASSERT_THAT(me.All<Core::PutLeader>(), SizeIs(2));
  EXPECT_EQ(me.All<Core::PutLeader>()[1].guard, 11U);
  me.AnswerPut(12);
  EXPECT_EQ(me.leadership().role(), Role::kLeading);
}

// Fails if this process opens a link to its own address.
TEST(LeadershipTest, AnEarlierProcessOfTheSameAddressIsGone) {
  Driver me;
  me.Step(Core::Tick{});
  LeaderRecord earlier = Driver::RecordOf("me", seconds(5), seconds(5));
  earlier.id = "before";
  me.See(10, earlier);
  EXPECT_EQ(me.leadership().role(), Role::kTakingOver);
}

TEST(LeadershipTest, OfTwoStandbysOneWins) {
  Driver me;
  me.StandBy();
  me.Step(Core::PeerRefused{"a:1"});
  me.Clear();
  me.FailPut();
  EXPECT_THAT(me.All<Core::ReadLeader>(), SizeIs(1));
  me.See(11, Driver::RecordOf("b"));
  EXPECT_EQ(me.leadership().role(), Role::kStandby);
  EXPECT_EQ(me.leadership().term(), Driver::TermOf(11));
  EXPECT_THAT(me.All<Core::WatchPeer>(), ElementsAre(Core::WatchPeer{"b:1"}));
  EXPECT_THAT(me.All<Core::PutLeader>(), IsEmpty());
}

// The longest validity is not known then. Fails if the standby takes over.
TEST(LeadershipTest, AKeyThatHoldsNoRecordIsLeftAlone) {
  Driver me;
  me.Step(Core::Tick{});
  me.See(10, std::nullopt);
  me.Advance(seconds(10));
  EXPECT_EQ(me.leadership().role(), Role::kStandby);
  EXPECT_THAT(me.All<Core::Note>(),
              ElementsAre(testing::Field(&Core::Note::text, HasSubstr("remove the key"))));
}

TEST(LeadershipTest, WhoWasOustedAgainAndAgainWaits) {
  Driver me(seconds(5), 4);
  me.StandBy();
  me.Step(Core::PeerRefused{"a:1"});
  me.Advance(milliseconds(3999));
  EXPECT_EQ(me.leadership().role(), Role::kStandby);
  me.Advance(milliseconds(1));
  EXPECT_EQ(me.leadership().role(), Role::kTakingOver);
  me.AnswerPut(11);
  me.Advance(seconds(1));
  me.See(12, Driver::RecordOf("a"));
  EXPECT_EQ(me.All<Core::StepDown>().at(0).ousted, 5);
}

TEST(LeadershipTest, WhoWasOustedFollowsOneThatResignsAtOnce) {
  Driver me(seconds(5), 4);
  me.StandBy();
  me.Step(Core::PeerResigns{"a:1"});
  EXPECT_EQ(me.leadership().role(), Role::kTakingOver);
}

// ---- a lost answer ----

TEST(LeadershipTest, AWriteWithoutAnswerIsReadBackAsOurs) {
  Driver me;
  me.StandBy();
  me.Step(Core::PeerRefused{"a:1"});
  me.Clear();
  me.Step(Core::PutUnanswered{});
  EXPECT_THAT(me.All<Core::ReadLeader>(), SizeIs(1));
  me.Advance(milliseconds(50));
  me.See(11, Driver::RecordOf("me"));
  EXPECT_EQ(me.leadership().role(), Role::kLeading);
  EXPECT_THAT(me.All<Core::Lead>(),
              ElementsAre(Core::Lead{Driver::TermOf(11), me.now() + milliseconds(5500)}));
  // The time of the write is not known: this process may acknowledge only after a renewal.
  EXPECT_THAT(me.All<Core::SetValidUntil>(), IsEmpty());
  EXPECT_THAT(me.All<Core::Renew>(), ElementsAre(Core::Renew{Driver::TermOf(11)}));
  me.AnswerRenewal(11);
  EXPECT_EQ(me.leadership().valid_until(), me.now() + seconds(5));
}

TEST(LeadershipTest, AWriteWithoutAnswerIsReadBackAsAnothers) {
  Driver me;
  me.StandBy();
  me.Step(Core::PeerRefused{"a:1"});
  me.Step(Core::PutUnanswered{});
  me.See(11, Driver::RecordOf("b"));
  EXPECT_EQ(me.leadership().role(), Role::kStandby);
  EXPECT_THAT(me.All<Core::Lead>(), IsEmpty());
}

TEST(LeadershipTest, AWriteWithoutEffectIsTriedAgainUnderTheSameGuard) {
  Driver me;
  me.StandBy();
  me.Step(Core::PeerRefused{"a:1"});
  me.Step(Core::PutUnanswered{});
  me.Advance(milliseconds(50));
  me.See(10, Driver::RecordOf("a"));
  me.Advance(milliseconds(50));
  ASSERT_THAT(me.All<Core::PutLeader>(), SizeIs(2));
  EXPECT_EQ(me.All<Core::PutLeader>()[1], me.All<Core::PutLeader>()[0]);
  // The first write took effect after all. So the second was refused, and the record is ours.
  me.FailPut();
  me.See(11, Driver::RecordOf("me"));
  EXPECT_EQ(me.leadership().role(), Role::kLeading);
}

// Fails if the write is repeated as soon as the read is answered.
TEST(LeadershipTest, WritesThatEtcdRefusesAreSpacedAndLoggedOnce) {
  Driver me;
  me.StandBy();
  me.Step(Core::PeerRefused{"a:1"});
  for (int i = 0; i < 100; ++i) {  // the disk of etcd is full: reads work
    if (me.leadership().role() == Role::kTakingOver) me.Step(Core::PutUnanswered{});
    me.See(10, Driver::RecordOf("a"));
    me.Step(Core::PeerRefused{"a:1"});
    me.Advance(milliseconds(10));
  }
  EXPECT_LE(me.All<Core::PutLeader>().size(), 11U);
  EXPECT_GE(me.All<Core::PutLeader>().size(), 9U);
  EXPECT_LE(me.All<Core::Note>().size(), 2U) << me.Text();
}

// Fails if a standby ignores the id in the record.
TEST(LeadershipTest, AWriteOfOursThatTakesEffectLateIsTakenUp) {
  Driver me;
  me.StandBy();
  me.Step(Core::PeerRefused{"a:1"});
  me.Step(Core::PutUnanswered{});
  me.Step(Core::PeerHeard{"a:1"});
  me.See(10, Driver::RecordOf("a"));
  EXPECT_EQ(me.leadership().role(), Role::kStandby);
  me.See(11, Driver::RecordOf("me"));
  EXPECT_EQ(me.leadership().role(), Role::kLeading);
}

// ---- renewals ----

// Fails if the validity begins when the answer arrives.
TEST(LeadershipTest, ARenewalCountsFromWhenItWasSent) {
  Driver me;
  me.LeadOn();
  EXPECT_EQ(me.leadership().valid_until(), me.now() + seconds(5));
  me.Advance(milliseconds(500));
  EXPECT_THAT(me.All<Core::Renew>(), ElementsAre(Core::Renew{Driver::TermOf(11)}));
  me.Advance(milliseconds(400));
  me.AnswerRenewal(11, milliseconds(400));
  EXPECT_EQ(me.leadership().valid_until(), me.now() - milliseconds(400) + seconds(5));
  EXPECT_EQ(me.All<Core::SetValidUntil>().back().at, me.leadership().valid_until());
}

TEST(LeadershipTest, OneRenewalAtATime) {
  Driver me;
  me.LeadOn();
  me.Advance(seconds(3));
  EXPECT_THAT(me.All<Core::Renew>(), SizeIs(1));
  me.Step(Core::RenewUnanswered{});
  EXPECT_THAT(me.All<Core::Renew>(), SizeIs(2));
}

// Fails if the leader goes on.
TEST(LeadershipTest, ARenewalThatIsNotOursEndsTheReign) {
  Driver me;
  me.LeadOn();
  me.Advance(milliseconds(500));
  me.AnswerRenewal(12);
  EXPECT_EQ(me.leadership().role(), Role::kOver);
  EXPECT_EQ(me.All<Core::SetValidUntil>().back().at, TimePoint());
  EXPECT_THAT(me.All<Core::StepDown>(),
              ElementsAre(Core::StepDown{false, "another rendezvous leads since term 12", 1}));
}

// After a restore from a snapshot etcd uses the same revisions again. Fails if only the revisions
// are compared.
TEST(LeadershipTest, TheSameRevisionOfAnotherClusterIsNotOurs) {
  Driver me;
  me.LeadOn();
  me.Advance(milliseconds(500));
  me.Step(Core::RenewAnswered{{78, 11}, me.now()});
  EXPECT_THAT(me.All<Core::StepDown>().at(0).why, HasSubstr("another cluster"));
}

TEST(LeadershipTest, QuorumThatReturnsFindsTheSameLeader) {
  Driver me;
  me.LeadOn();
  me.Clear();
  const TimePoint valid_until = me.leadership().valid_until();
  for (int i = 0; i < 20; ++i) {
    me.Advance(milliseconds(500));
    me.Step(Core::RenewUnanswered{});
  }
  EXPECT_EQ(me.leadership().role(), Role::kLeading);
  EXPECT_EQ(me.leadership().valid_until(), valid_until);
  EXPECT_LT(valid_until, me.now());
  EXPECT_THAT(me.All<Core::Note>(), SizeIs(2)) << me.Text();  // renewals fail; the validity is over
  me.AnswerRenewal(11);
  EXPECT_EQ(me.leadership().term(), Driver::TermOf(11));
  EXPECT_EQ(me.leadership().valid_until(), me.now() + seconds(5));
  EXPECT_THAT(me.All<Core::Note>(), SizeIs(3)) << me.Text();
  EXPECT_THAT(me.All<Core::ChangeTerm>(), IsEmpty());
}

TEST(LeadershipTest, WhatTheWatchSaysOfBeforeIsIgnored) {
  Driver me;
  me.LeadOn();
  me.See(9, Driver::RecordOf("z"));
  me.See(10, Driver::RecordOf("a"));
  me.See(0, std::nullopt);
  me.See(11, Driver::RecordOf("me"));
  EXPECT_EQ(me.leadership().role(), Role::kLeading);
}

TEST(LeadershipTest, WhoReadsALaterLeaderIsOver) {
  Driver me;
  me.LeadOn();
  me.See(12, Driver::RecordOf("b"));
  EXPECT_THAT(me.All<Core::StepDown>().at(0).why, "b:1 leads since term 12");
}

TEST(LeadershipTest, AStandbyAcceptsAnotherCluster) {
  Driver me;
  me.StandBy();
  me.See(3, Driver::RecordOf("b"), 78);
  EXPECT_EQ(me.leadership().term(), (Term{78, 3}));
  EXPECT_THAT(me.All<Core::WatchPeer>(),
              ElementsAre(Core::WatchPeer{"a:1"}, Core::WatchPeer{"b:1"}));
}

TEST(LeadershipTest, WhoLosesTheRightToWriteIsOver) {
  Driver me;
  me.LeadOn();
  me.Step(Core::RightLost{});
  EXPECT_EQ(me.leadership().role(), Role::kOver);
  EXPECT_FALSE(me.All<Core::StepDown>().at(0).resigned);
}

// ---- the hold ----

// Fails if the hold is only the validity in the record, without a tenth for clocks of other rates.
TEST(LeadershipTest, TheHoldIsElevenTenthsOfTheLongestValidityFromReceipt) {
  Driver me;
  me.Step(Core::Tick{});
  me.See(10, Driver::RecordOf("a", seconds(5), seconds(40)));
  me.Step(Core::PeerRefused{"a:1"});
  const TimePoint sent = me.now();
  me.Advance(milliseconds(300));
  me.Step(Core::PutAnswered{true, Driver::TermOf(11), sent});
  EXPECT_THAT(me.All<Core::Lead>(),
              ElementsAre(Core::Lead{Driver::TermOf(11), me.now() + seconds(44)}));
  EXPECT_EQ(me.leadership().valid_until(), sent + seconds(5));
}

// Fails if the leader writes only its own validity.
TEST(LeadershipTest, TheLongestValidityIsHandedOnUntilItsHoldIsOver) {
  Driver me;
  me.Step(Core::Tick{});
  me.See(10, Driver::RecordOf("a", seconds(5), seconds(40)));
  me.Step(Core::PeerRefused{"a:1"});
  EXPECT_EQ(me.All<Core::PutLeader>().at(0).record,
            Driver::RecordOf("me", seconds(5), seconds(40)));
  me.AnswerPut(11);
  const TimePoint over = me.now() + seconds(44);
  const auto renew_until = [&](TimePoint end) {
    while (me.now() < end) {
      me.Advance(std::min<Duration>(milliseconds(100), end - me.now()));
      me.AnswerRenewal(11);
    }
  };
  renew_until(over - milliseconds(1));
  EXPECT_THAT(me.All<Core::PutLeader>(), SizeIs(1));
  renew_until(over);
  ASSERT_THAT(me.All<Core::PutLeader>(), SizeIs(2));
  EXPECT_EQ(me.All<Core::PutLeader>()[1],
            (Driver::PutOf(11, Driver::RecordOf("me", seconds(5), seconds(5)))));
  me.AnswerPut(12);
  EXPECT_THAT(me.All<Core::ChangeTerm>(), ElementsAre(Core::ChangeTerm{Driver::TermOf(12)}));
  EXPECT_THAT(me.All<Core::Lead>(), SizeIs(1));
  me.Advance(seconds(1));
  EXPECT_EQ(me.All<Core::Renew>().back().term, Driver::TermOf(12));
}

// etcd is full: it refuses writes, and answers reads. Seen red without Extend: once its validity
// was over, the leader acknowledged nothing, and the workers of all jobs ended.
TEST(LeadershipTest, WhileItsWriteIsPendingReadsRenew) {
  Driver me;
  LeadAndWriteAgain(me);
  for (int i = 0; i < 20; ++i) {
    me.Step(Core::PutUnanswered{});
    me.Advance(seconds(1));
    me.Step(Core::LeaderSeen{Driver::kCluster, 11, Driver::RecordOf("me"),
                             me.now() - milliseconds(200)});
    EXPECT_EQ(me.leadership().valid_until(), me.now() + milliseconds(4800));
  }
  EXPECT_EQ(me.leadership().role(), Role::kLeading);
  EXPECT_GE(me.All<Core::PutLeader>().size(), 20U);
}

TEST(LeadershipTest, OneWhoseValidityIsLongerWritesIts) {
  Driver me(minutes(1));
  me.StandBy();
  me.Step(Core::PeerRefused{"a:1"});
  EXPECT_EQ(me.All<Core::PutLeader>().at(0).record, Driver::RecordOf("me", minutes(1), minutes(1)));
  me.AnswerPut(11);
  // Only earlier leaders may still acknowledge, so the hold follows their validity.
  EXPECT_EQ(me.All<Core::Lead>().at(0).leases_from, me.now() + milliseconds(5500));
}

// Fails if renewals of the earlier term end the reign.
TEST(LeadershipTest, ALowerValidityWhoseAnswerIsLostIsReadBack) {
  Driver me;
  LeadAndWriteAgain(me);
  ASSERT_THAT(me.All<Core::PutLeader>(), SizeIs(2));
  me.Clear();
  me.Step(Core::PutUnanswered{});
  me.Advance(seconds(1));
  EXPECT_THAT(me.All<Core::Renew>(), IsEmpty());
  EXPECT_THAT(me.All<Core::ReadLeader>(), SizeIs(11));
  me.See(12, Driver::RecordOf("me"));
  EXPECT_THAT(me.All<Core::ChangeTerm>(), ElementsAre(Core::ChangeTerm{Driver::TermOf(12)}));
  EXPECT_THAT(me.All<Core::Renew>(), ElementsAre(Core::Renew{Driver::TermOf(12)}));
}

// ---- the end ----

TEST(LeadershipTest, WhoIsAskedToEndHandsOver) {
  Driver me;
  me.LeadOn();
  me.Advance(seconds(6));
  me.AnswerRenewal(11);
  me.Clear();
  me.Step(Core::EndAsked{});
  EXPECT_EQ(me.leadership().role(), Role::kResigning);
  EXPECT_FALSE(me.leadership().hands_over()) << "before the key says so";
  EXPECT_THAT(me.All<Core::SetValidUntil>(), ElementsAre(Core::SetValidUntil{TimePoint()}));
  EXPECT_THAT(me.All<Core::PutLeader>(),
              ElementsAre(Driver::PutOf(11, Driver::RecordOf("me", seconds(5), Duration{}, true))));
  me.AnswerPut(12);
  EXPECT_EQ(me.leadership().role(), Role::kResigning);
  EXPECT_TRUE(me.leadership().hands_over());
  me.See(13, Driver::RecordOf("b"));
  EXPECT_THAT(me.All<Core::StepDown>(), ElementsAre(Core::StepDown{true, "has handed over", 0}));
}

// Fails if the leader waits for the answer.
TEST(LeadershipTest, AResignationWithoutAnAnswerHandsOverToo) {
  Driver me;
  me.LeadOn();
  me.Step(Core::EndAsked{});
  me.Step(Core::PutUnanswered{});
  EXPECT_TRUE(me.leadership().hands_over());
}

// Fails if the longest validity in the record is always 0.
TEST(LeadershipTest, WhoHandsOverWithinItsHoldSaysSo) {
  Driver me;
  me.Step(Core::Tick{});
  me.See(10, Driver::RecordOf("a", seconds(5), seconds(40)));
  me.Step(Core::PeerRefused{"a:1"});
  me.AnswerPut(11);
  me.Clear();
  me.Step(Core::EndAsked{});
  EXPECT_EQ(me.All<Core::PutLeader>().at(0).record,
            Driver::RecordOf("me", seconds(5), seconds(40), true));
}

TEST(LeadershipTest, AHandOverHasNoHold) {
  Driver me;
  me.StandBy();
  me.See(12, Driver::RecordOf("a", seconds(5), Duration{}, true));
  me.AnswerPut(13);
  EXPECT_THAT(me.All<Core::Lead>(), ElementsAre(Core::Lead{Driver::TermOf(13), me.now()}));
}

// Fails if a renewal that was under way makes the leader valid again.
TEST(LeadershipTest, ARenewalDoesNotTakeTheResignationBack) {
  Driver me;
  me.LeadOn();
  me.Advance(milliseconds(500));
  me.Step(Core::EndAsked{});
  me.AnswerRenewal(11);
  EXPECT_EQ(me.leadership().valid_until(), TimePoint());
  EXPECT_EQ(me.All<Core::SetValidUntil>().back().at, TimePoint());
}

TEST(LeadershipTest, ItWaitsOneSecondForASuccessor) {
  Driver me;
  me.LeadOn();
  me.Step(Core::EndAsked{});
  me.AnswerPut(12);
  me.Advance(milliseconds(999));
  EXPECT_THAT(me.All<Core::StepDown>(), IsEmpty());
  me.Advance(milliseconds(1));
  EXPECT_TRUE(me.All<Core::StepDown>().at(0).resigned);
}

TEST(LeadershipTest, AStandbyEndsAtOnce) {
  Driver me;
  me.StandBy();
  me.Step(Core::EndAsked{});
  EXPECT_THAT(me.All<Core::StepDown>(), ElementsAre(Core::StepDown{true, "is asked to end", 0}));
}

}  // namespace leadership_test
}  // namespace ddprun
