#include "launcher/connection/etcd/leader_search.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace leader_search_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Next = LeaderSearch::Next;
using Seen = LeaderSearch::Seen;

constexpr TimePoint kBegin{Duration(seconds(1000))};

class LeaderSearchTest : public testing::Test {
 protected:
  Next See(const Seen& seen, bool running = false) {
    search_.OnReadBegan(now_);
    return search_.OnSeen(seen, running, now_);
  }

  TimePoint now_ = kBegin;
  LeaderSearch search_{"me", /*may_start=*/true, kBegin};
};

TEST_F(LeaderSearchTest, WhereNobodyLeadsTheOneWhoseClaimIsTakenStarts) {
  EXPECT_EQ(See({}), Next::kClaim);
  EXPECT_EQ(See({0, "", 7, "me"}), Next::kStart);
  EXPECT_EQ(See({0, "", 7, "me"}), Next::kWait) << "once for each claim";
}

TEST_F(LeaderSearchTest, TheOthersWaitForTheRendezvousOfTheClaimant) {
  const Seen claimed{0, "", 7, "another"};
  EXPECT_EQ(See(claimed), Next::kWait);
  now_ += LeaderSearch::kClaimLasts - milliseconds(1);
  EXPECT_EQ(See(claimed), Next::kWait);
  now_ += milliseconds(1);
  EXPECT_EQ(See(claimed), Next::kClaim) << "it has died meanwhile";
  EXPECT_EQ(See({0, "", 9, "a third"}), Next::kWait) << "who was faster";
}

TEST_F(LeaderSearchTest, AClaimThatALeaderFollowedIsOver) {
  EXPECT_EQ(See({8, "", 7, "another"}), Next::kClaim) << "it has resigned";
  EXPECT_EQ(See({8, "", 9, "me"}), Next::kStart);
}

TEST_F(LeaderSearchTest, OneStartedHereIsWaitedFor) {
  EXPECT_EQ(See({}, /*running=*/true), Next::kWait);
  now_ += seconds(60);
  EXPECT_EQ(See({0, "", 7, "me"}, /*running=*/true), Next::kWait);
}

TEST_F(LeaderSearchTest, WhoMayNotStartNeverClaims) {
  LeaderSearch search("me", /*may_start=*/false, kBegin);
  EXPECT_EQ(search.OnSeen({}, false, kBegin), Next::kWait);
  EXPECT_EQ(search.OnSeen({0, "", 7, "me"}, false, kBegin + seconds(60)), Next::kWait);
}

TEST_F(LeaderSearchTest, ALeaderThatRefusesIsMissingAtOnce) {
  const Seen seen{8, "h:1", 7, "another"};
  EXPECT_EQ(See(seen), Next::kWait);
  search_.OnHeard(now_);
  search_.OnLost(/*refused=*/false, now_);
  EXPECT_EQ(See(seen), Next::kWait) << "its connection broke: it may be there";
  search_.OnLost(/*refused=*/true, now_);
  EXPECT_EQ(See(seen), Next::kClaim);
}

TEST_F(LeaderSearchTest, ALeaderThatFallsSilentIsMissingAfterASecond) {
  const Seen seen{8, "h:1", 7, "another"};
  EXPECT_EQ(See(seen), Next::kWait);
  search_.OnHeard(now_);
  EXPECT_EQ(search_.NextRead(), now_ + LeaderSearch::kSilence);
  now_ += LeaderSearch::kSilence - milliseconds(1);
  EXPECT_EQ(See(seen), Next::kWait);
  now_ += milliseconds(1);
  EXPECT_EQ(See(seen), Next::kClaim);
  search_.OnHeard(now_);
  EXPECT_EQ(See(seen), Next::kWait) << "it is back";
}

TEST_F(LeaderSearchTest, ALeaderThatWasNotHeardYetHasLonger) {
  const Seen seen{8, "h:1", 7, "another"};
  EXPECT_EQ(See(seen), Next::kWait);
  now_ += LeaderSearch::kFirstWord - milliseconds(1);
  search_.OnLost(/*refused=*/false, now_);
  EXPECT_EQ(See(seen), Next::kWait);
  now_ += milliseconds(1);
  EXPECT_EQ(See(seen), Next::kClaim);
}

TEST_F(LeaderSearchTest, WhatIsKnownOfALeaderIsNotHeldAgainstTheNext) {
  EXPECT_EQ(See({8, "h:1", 7, "another"}), Next::kWait);
  search_.OnHeard(now_);
  search_.OnLost(/*refused=*/true, now_);
  EXPECT_EQ(See({9, "h:2", 7, "another"}), Next::kWait);
  now_ += LeaderSearch::kSilence;
  EXPECT_EQ(See({9, "h:2", 7, "another"}), Next::kWait) << "nobody was told yet that it is there";
}

TEST_F(LeaderSearchTest, EtcdIsReadOftenAtFirstAndSeldomLater) {
  See({});
  EXPECT_EQ(search_.NextRead(), now_ + LeaderSearch::kReadOften);
  now_ += LeaderSearch::kOften;
  See({});
  EXPECT_EQ(search_.NextRead(), now_ + LeaderSearch::kReadSeldom);
  search_.OnHeard(now_);
  search_.OnLost(/*refused=*/false, now_);
  EXPECT_EQ(search_.NextRead(), now_ + LeaderSearch::kReadOften);
}

}  // namespace leader_search_test
}  // namespace ddprun
