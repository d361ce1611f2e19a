#include "launcher/connection/leader_claims.h"

#include <gtest/gtest.h>

#include <optional>

namespace ddprun {
namespace leader_claims_test {

using Role = Follower::Role;

constexpr std::uint64_t kCluster = 7;
constexpr std::uint64_t kRestored = 8;  // another etcd cluster

Follower::Said Leads(std::uint64_t revision, std::uint64_t cluster = kCluster) {
  return {Role::kLeads, {cluster, revision}};
}
Follower::Said StandsBy(std::uint64_t revision) { return {Role::kStandsBy, {kCluster, revision}}; }
Follower::Said CutOff(std::uint64_t revision) { return {Role::kCutOff, {kCluster, revision}}; }

TEST(LeaderClaimsTest, WhoSaysThatItLeadsDoesAndStandbysDoNot) {
  LeaderClaims claims(3);
  claims.OnSaid(0, StandsBy(5));
  EXPECT_EQ(claims.leader(), std::nullopt);
  claims.OnSaid(1, Leads(5));
  EXPECT_EQ(claims.leader(), 1);
  EXPECT_EQ(claims.term(), (Term{kCluster, 5}));
}

TEST(LeaderClaimsTest, OfTwoTheHigherTermLeadsWhoeverSpokeLast) {
  LeaderClaims claims(3);
  claims.OnSaid(0, Leads(5));
  claims.OnSaid(2, Leads(9));
  EXPECT_EQ(claims.leader(), 2);
  claims.OnSaid(0, Leads(5));
  EXPECT_EQ(claims.leader(), 2);
}

TEST(LeaderClaimsTest, AnOvertakenLeaderDoesNotLeadAgainWhenTheNewOneIsGone) {
  LeaderClaims claims(2);
  claims.OnSaid(0, Leads(5));
  claims.OnSaid(1, Leads(9));
  claims.OnEnded(1);
  EXPECT_EQ(claims.leader(), std::nullopt);
  claims.OnSaid(0, Leads(12));
  EXPECT_EQ(claims.leader(), 0);
}

TEST(LeaderClaimsTest, ALeaderThatIsCutOffFromEtcdStillLeadsAndOneThatHandsOverDoesNot) {
  LeaderClaims claims(2);
  claims.OnSaid(0, CutOff(5));
  EXPECT_EQ(claims.leader(), 0);
  claims.OnSaid(0, {Role::kHandsOver, {kCluster, 5}});
  EXPECT_EQ(claims.leader(), std::nullopt);
}

TEST(LeaderClaimsTest, TermsOfAnotherEtcdAreNotCompared) {
  LeaderClaims claims(2);
  claims.OnSaid(0, Leads(500));
  claims.OnSaid(1, Leads(3, kRestored));
  EXPECT_EQ(claims.leader(), 0) << "it stays while it says so";
  claims.OnSaid(0, CutOff(500));
  EXPECT_EQ(claims.leader(), 1) << "its etcd is gone";
  claims.OnSaid(0, Leads(500));
  EXPECT_EQ(claims.leader(), 1);
  claims.OnEnded(1);
  EXPECT_EQ(claims.leader(), 0);
}

TEST(LeaderClaimsTest, ARestoredEtcdBeginsAgainWithLowRevisions) {
  LeaderClaims claims(2);
  claims.OnSaid(0, Leads(500));
  claims.OnEnded(0);
  claims.OnSaid(1, Leads(3, kRestored));
  EXPECT_EQ(claims.leader(), 1);
}

TEST(LeaderClaimsTest, WithoutATermThereIsNoClaim) {
  LeaderClaims claims(1);
  claims.OnSaid(0, Leads(0));
  EXPECT_EQ(claims.leader(), std::nullopt);
}

}  // namespace leader_claims_test
}  // namespace ddprun
