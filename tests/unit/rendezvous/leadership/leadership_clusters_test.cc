// Tests Leadership after etcd was emptied, or restored from a snapshot: etcd is another cluster, or
// its revision goes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "rendezvous/leadership/leadership.h"
#include "tests/unit/rendezvous/leadership/leadership_driver.h"

namespace ddprun {
namespace leadership_clusters_test {

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

// A leader that has taken over from `record` in cluster kCluster.
Driver After(std::optional<LeaderRecord> record, Duration validity = seconds(5)) {
  Driver me(validity);
  me.Step(Core::Tick{});
  me.See(record ? 10 : 0, record);
  if (record) me.Step(Core::PeerRefused{record->endpoint});
  me.AnswerPut(11);
  return me;
}

// Fails if Lead treats every record as one of this cluster.
TEST(LeadershipClustersTest, WhereTheRecordIsNotOfThisClusterAgentsMayRunWhatEtcdDoesNotKnow) {
  LeaderRecord of_another = Driver::RecordOf("a");
  of_another.complete_in = Driver::kCluster + 1;
  LeaderRecord unproven = Driver::RecordOf("a");  // by an earlier version, or within a hold
  unproven.complete_in = 0;
  for (const auto& record :
       {std::optional<LeaderRecord>(), std::optional(of_another), std::optional(unproven)}) {
    const Driver me = After(record);
    ASSERT_THAT(me.All<Core::Lead>(), SizeIs(1));
    EXPECT_TRUE(me.All<Core::Lead>()[0].restored);
    EXPECT_EQ(me.All<Core::Lead>()[0].leases_from, me.now() + milliseconds(5500));
    EXPECT_EQ(me.All<Core::PutLeader>().at(0).record.complete_in, 0u);
  }
  const Driver me = After(Driver::RecordOf("a"));
  EXPECT_FALSE(me.All<Core::Lead>().at(0).restored);
  EXPECT_EQ(me.All<Core::PutLeader>().at(0).record.complete_in, Driver::kCluster);
}

// The snapshot does not contain leaders that came after it; they may still acknowledge.
TEST(LeadershipClustersTest, AResignationInAnotherClusterDoesNotShortenTheHold) {
  LeaderRecord resigned = Driver::RecordOf("a", seconds(5), Duration{}, true);
  resigned.complete_in = 0;
  const Driver me = After(resigned);
  EXPECT_EQ(me.All<Core::Lead>().at(0).leases_from, me.now() + milliseconds(5500));
}

// The leader of the old cluster may still acknowledge. Seen red with a hold for our own validity.
TEST(LeadershipClustersTest, InAnEmptiedEtcdTheHoldIsForTheLongestValidityThatWasSeen) {
  Driver me;
  me.Step(Core::Tick{});
  me.See(10, Driver::RecordOf("a", minutes(1), minutes(1)));
  me.See(0, std::nullopt, 78);
  me.Advance(seconds(1));
  ASSERT_THAT(me.All<Core::PutLeader>(), SizeIs(1));
  EXPECT_EQ(me.All<Core::PutLeader>()[0].record.longest_validity, minutes(1));
  me.Step(Core::PutAnswered{true, {78, 2}, me.now()});
  EXPECT_EQ(me.All<Core::Lead>().at(0).leases_from, me.now() + seconds(66));
}

TEST(LeadershipClustersTest, OnceTheLongestLeaseIsOverTheRecordSaysThatItIsComplete) {
  Driver me = After(std::nullopt);
  const TimePoint over = me.now() + milliseconds(5500) + minutes(1);
  me.Clear();
  while (me.now() < over - milliseconds(500)) {
    me.Advance(milliseconds(500));
    me.AnswerRenewal(11);
  }
  EXPECT_THAT(me.All<Core::PutLeader>(), IsEmpty());
  me.Advance(milliseconds(500));
  me.AnswerRenewal(11);
  EXPECT_THAT(me.All<Core::PutLeader>(),
              ElementsAre(Driver::PutOf(11, Driver::RecordOf("me", seconds(5), seconds(5)))));
  me.AnswerPut(12);
  EXPECT_THAT(me.All<Core::ChangeTerm>(), ElementsAre(Core::ChangeTerm{Driver::TermOf(12)}));
  me.Clear();
  me.Step(Core::EndAsked{});
  EXPECT_EQ(me.All<Core::PutLeader>().at(0).record.complete_in, Driver::kCluster);
}

TEST(LeadershipClustersTest, WhoResignsBeforeThatDoesNotSaySo) {
  Driver me = After(std::nullopt);
  me.Advance(seconds(6));
  me.AnswerRenewal(11);
  me.Clear();
  me.Step(Core::EndAsked{});
  EXPECT_EQ(me.All<Core::PutLeader>().at(0).record.complete_in, 0u);
}

// etcd was restored as the same cluster, with our record in it: the key alone does not show it.
// Fails if a renewal compares only the revision of the key.
TEST(LeadershipClustersTest, ARevisionThatGoesBackEndsTheReign) {
  Driver me;
  me.LeadOn();
  me.Advance(milliseconds(500));
  me.Step(Core::RenewAnswered{Driver::TermOf(11), me.now(), 300});
  me.Advance(milliseconds(500));
  me.Step(Core::RenewAnswered{Driver::TermOf(11), me.now(), 300});
  EXPECT_EQ(me.leadership().role(), Role::kLeading);
  me.Advance(milliseconds(500));
  me.Step(Core::RenewAnswered{Driver::TermOf(11), me.now(), 299});
  EXPECT_EQ(me.leadership().role(), Role::kOver);
  ASSERT_THAT(me.All<Core::StepDown>(), SizeIs(1));
  EXPECT_THAT(me.All<Core::StepDown>()[0].why, HasSubstr("went back from 300 to 299"));
  EXPECT_EQ(me.All<Core::SetValidUntil>().back().at, TimePoint());
}

// There may have been other leaders after the snapshot, which this process does not know. So it
// must take over, with a hold, like any other process. Seen red when the id in the record alone
// decided.
TEST(LeadershipClustersTest, AWriteOfOursInARestoredClusterMakesUsNoLeader) {
  Driver me;
  me.StandBy();
  me.Step(Core::PeerRefused{"a:1"});
  me.Step(Core::PutUnanswered{});
  me.Step(Core::PeerHeard{"a:1"});
  me.See(10, Driver::RecordOf("a"));
  me.See(9, Driver::RecordOf("me"), 78);
  EXPECT_NE(me.leadership().role(), Role::kLeading);
  me.Advance(seconds(1));
  EXPECT_EQ(me.leadership().role(), Role::kTakingOver);
  ASSERT_FALSE(me.All<Core::PutLeader>().empty());
  EXPECT_EQ(me.All<Core::PutLeader>().back().guard, 9U);
  EXPECT_EQ(me.All<Core::PutLeader>().back().cluster, 78U);
}

}  // namespace leadership_clusters_test
}  // namespace ddprun
