#include "rendezvous/auth/challenges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ddprun::auth {
namespace challenges_test {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr Challenges::TimePoint kNow{std::chrono::hours(1)};

std::string Why(const absl::Status& status) { return std::string(status.message()); }

TEST(ChallengesTest, IsGoodOnceForWhoAskedForIt) {
  Challenges challenges;
  const std::string nonce = challenges.Issue("ann", kNow);
  EXPECT_TRUE(challenges.Check(nonce, "ann", kNow).ok());
  EXPECT_THAT(Why(challenges.Check(nonce, "bob", kNow)), HasSubstr("to this connection"));
  EXPECT_TRUE(challenges.Check(nonce, "ann", kNow).ok()) << "checking uses nothing up";
  EXPECT_TRUE(challenges.Use(nonce, kNow).ok());
  EXPECT_THAT(Why(challenges.Use(nonce, kNow)), HasSubstr("used before"));
}

TEST(ChallengesTest, Expires) {
  Challenges challenges;
  const std::string nonce = challenges.Issue("ann", kNow);
  const auto end = kNow + Challenges::kLifetime;
  EXPECT_TRUE(challenges.Check(nonce, "ann", end - milliseconds(1)).ok());
  EXPECT_THAT(Why(challenges.Check(nonce, "ann", end)), HasSubstr("expired"));
}

TEST(ChallengesTest, AUsedOneIsRememberedUntilItHasExpired) {
  Challenges challenges;
  const std::string nonce = challenges.Issue("ann", kNow);
  ASSERT_TRUE(challenges.Use(nonce, kNow).ok());
  // A used one must be remembered as long as it is not expired.
  const auto last = kNow + Challenges::kLifetime - milliseconds(1);
  ASSERT_TRUE(challenges.Check(nonce, "ann", last).ok());
  EXPECT_FALSE(challenges.Use(nonce, last).ok());
}

TEST(ChallengesTest, OfAnotherRendezvousOrOddOnesAreNotKnown) {
  const Challenges challenges;
  std::string nonce = Challenges().Issue("ann", kNow);
  EXPECT_FALSE(challenges.Check(nonce, "ann", kNow).ok());
  nonce = challenges.Issue("ann", kNow);
  for (std::size_t i = 0; i < nonce.size(); ++i) {
    std::string odd = nonce;
    odd[i] = static_cast<char>(odd[i] ^ 1);
    EXPECT_FALSE(challenges.Check(odd, "ann", kNow).ok()) << i;
    EXPECT_FALSE(challenges.Check(nonce.substr(0, i), "ann", kNow).ok()) << i;
  }
  EXPECT_FALSE(challenges.Check(nonce + "x", "ann", kNow).ok());
}

TEST(ChallengesTest, AreAllDifferent) {
  const Challenges challenges;
  std::set<std::string> nonces;
  for (int i = 0; i < 1000; ++i) nonces.insert(challenges.Issue("ann", kNow));
  EXPECT_EQ(nonces.size(), 1000u);
}

TEST(ChallengesTest, NoMoreThanTheBoundAreRememberedAndTimeMakesRoom) {
  Challenges challenges(2);
  EXPECT_TRUE(challenges.Use(challenges.Issue("ann", kNow), kNow).ok());
  EXPECT_TRUE(challenges.Use(challenges.Issue("ann", kNow), kNow).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(challenges.Use(challenges.Issue("ann", kNow), kNow)));
  const auto later = kNow + Challenges::kLifetime;
  EXPECT_TRUE(challenges.Use(challenges.Issue("ann", later), later).ok());
}

}  // namespace challenges_test
}  // namespace ddprun::auth
