#include "launcher/connection/etcd/meeting_search.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace meeting_search_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Next = MeetingSearch::Next;
using Seen = MeetingSearch::Seen;

constexpr TimePoint kBegin{Duration(seconds(1000))};

class MeetingSearchTest : public testing::Test {
 protected:
  Next See(const Seen& seen, bool running = false) {
    search_.OnReadBegan(now_);
    return search_.OnSeen(seen, running, now_);
  }

  TimePoint now_ = kBegin;
  MeetingSearch search_{"me", /*may_start=*/true, kBegin};
};

TEST_F(MeetingSearchTest, WhereNobodyLeadsTheOneWhoseClaimIsTakenStarts) {
  EXPECT_EQ(See({}), Next::kClaim);
  EXPECT_EQ(See({0, "", 7, "me"}), Next::kStart);
  EXPECT_EQ(See({0, "", 7, "me"}), Next::kWait) << "once for each claim";
}

TEST_F(MeetingSearchTest, TheOthersWaitForTheRendezvousOfTheClaimant) {
  const Seen claimed{0, "", 7, "another"};
  EXPECT_EQ(See(claimed), Next::kWait);
  now_ += MeetingSearch::kClaimLasts - milliseconds(1);
  EXPECT_EQ(See(claimed), Next::kWait);
  now_ += milliseconds(1);
  EXPECT_EQ(See(claimed), Next::kClaim) << "it has died meanwhile";
  EXPECT_EQ(See({0, "", 9, "a third"}), Next::kWait) << "who was faster";
}

TEST_F(MeetingSearchTest, AClaimThatALeaderFollowedIsOver) {
  EXPECT_EQ(See({8, "", 7, "another"}), Next::kClaim) << "it has resigned";
  EXPECT_EQ(See({8, "", 9, "me"}), Next::kStart);
}

TEST_F(MeetingSearchTest, OneStartedHereIsWaitedFor) {
  EXPECT_EQ(See({}, /*running=*/true), Next::kWait);
  now_ += seconds(60);
  EXPECT_EQ(See({0, "", 7, "me"}, /*running=*/true), Next::kWait);
}

TEST_F(MeetingSearchTest, WhoMayNotStartNeverClaims) {
  MeetingSearch search("me", /*may_start=*/false, kBegin);
  EXPECT_EQ(search.OnSeen({}, false, kBegin), Next::kWait);
  EXPECT_EQ(search.OnSeen({0, "", 7, "me"}, false, kBegin + seconds(60)), Next::kWait);
}

TEST_F(MeetingSearchTest, ALeaderThatRefusesIsMissingAtOnce) {
  const Seen seen{8, "h:1", 7, "another"};
  EXPECT_EQ(See(seen), Next::kWait);
  search_.OnHeard(now_);
  search_.OnLost(/*refused=*/false, now_);
  EXPECT_EQ(See(seen), Next::kWait) << "its connection broke: it may be there";
  search_.OnLost(/*refused=*/true, now_);
  EXPECT_EQ(See(seen), Next::kClaim);
}

TEST_F(MeetingSearchTest, ALeaderThatFallsSilentIsMissingAfterASecond) {
  const Seen seen{8, "h:1", 7, "another"};
  EXPECT_EQ(See(seen), Next::kWait);
  search_.OnHeard(now_);
  EXPECT_EQ(search_.NextRead(), now_ + MeetingSearch::kSilence);
  now_ += MeetingSearch::kSilence - milliseconds(1);
  EXPECT_EQ(See(seen), Next::kWait);
  now_ += milliseconds(1);
  EXPECT_EQ(See(seen), Next::kClaim);
  search_.OnHeard(now_);
  EXPECT_EQ(See(seen), Next::kWait) << "it is back";
}

TEST_F(MeetingSearchTest, ALeaderThatWasNotHeardYetHasLonger) {
  const Seen seen{8, "h:1", 7, "another"};
  EXPECT_EQ(See(seen), Next::kWait);
  now_ += MeetingSearch::kFirstWord - milliseconds(1);
  search_.OnLost(/*refused=*/false, now_);
  EXPECT_EQ(See(seen), Next::kWait);
  now_ += milliseconds(1);
  EXPECT_EQ(See(seen), Next::kClaim);
}

TEST_F(MeetingSearchTest, WhatIsKnownOfALeaderIsNotHeldAgainstTheNext) {
  EXPECT_EQ(See({8, "h:1", 7, "another"}), Next::kWait);
  search_.OnHeard(now_);
  search_.OnLost(/*refused=*/true, now_);
  EXPECT_EQ(See({9, "h:2", 7, "another"}), Next::kWait);
  now_ += MeetingSearch::kSilence;
  EXPECT_EQ(See({9, "h:2", 7, "another"}), Next::kWait) << "nobody was told yet that it is there";
}

TEST_F(MeetingSearchTest, EtcdIsReadOftenAtFirstAndSeldomLater) {
  See({});
  EXPECT_EQ(search_.NextRead(), now_ + MeetingSearch::kReadOften);
  now_ += MeetingSearch::kOften;
  See({});
  EXPECT_EQ(search_.NextRead(), now_ + MeetingSearch::kReadSeldom);
  search_.OnHeard(now_);
  search_.OnLost(/*refused=*/false, now_);
  EXPECT_EQ(search_.NextRead(), now_ + MeetingSearch::kReadOften);
}

}  // namespace meeting_search_test
}  // namespace ddprun
