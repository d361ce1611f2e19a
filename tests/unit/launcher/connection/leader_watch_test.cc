#include "launcher/connection/leader_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun {
namespace leader_watch_test {

using Role = Follower::Role;
using testing::ElementsAre;

constexpr std::chrono::seconds kHang{60};

class LeaderWatchTest : public testing::Test {
 protected:
  struct Call {
    int place = 0;
    Follower::Handler handler;
    bool over = false;
  };
  class FakeFollower final : public Follower {
   public:
    explicit FakeFollower(std::shared_ptr<Call> call) : call_(std::move(call)) {}
    ~FakeFollower() override { call_->over = true; }

   private:
    const std::shared_ptr<Call> call_;
  };

  void Watch(int places) {
    watch_ = std::make_unique<LeaderWatch>(
        &loop_, places, /*seed=*/1,
        [this](int place, Follower::Handler handler) {
          calls_.push_back(std::make_shared<Call>(Call{place, std::move(handler)}));
          return std::make_unique<FakeFollower>(calls_.back());
        },
        [this](std::optional<int> place) { led_.push_back(place.value_or(-1)); },
        [this](int place) { standing_by_.push_back(place); });
  }
  // Runs the loop until everything posted before is done.
  void Settle() {
    loop_.Post([this] { loop_.Quit(); });
    loop_.Run();
  }
  void Say(int call, Follower::Event event) {
    calls_[call]->handler(std::move(event));
    Settle();
  }
  void RunFor(std::chrono::milliseconds time) {
    loop_.AddTimer(EventLoop::Clock::now() + time, [this] { loop_.Quit(); });
    loop_.Run();
  }
  void WaitForCalls(std::size_t calls) {
    const auto end = EventLoop::Clock::now() + kHang;
    while (calls_.size() < calls && EventLoop::Clock::now() < end) {
      RunFor(std::chrono::milliseconds(10));
    }
    ASSERT_GE(calls_.size(), calls);
  }

  EventLoop loop_;
  std::vector<std::shared_ptr<Call>> calls_;
  std::vector<int> led_;  // −1: nobody leads
  std::vector<int> standing_by_;
  std::unique_ptr<LeaderWatch> watch_;
};

TEST_F(LeaderWatchTest, EveryPlaceIsFollowedAndEachNewLeaderIsTold) {
  Watch(3);
  ASSERT_EQ(calls_.size(), 3u);
  Say(0, Follower::Said{Role::kLeads, {7, 5}});
  Say(1, Follower::Said{Role::kStandsBy, {7, 5}});
  EXPECT_THAT(led_, ElementsAre(0)) << "what changes nothing is not told";
  Say(2, Follower::Said{Role::kLeads, {7, 9}});
  Say(2, Follower::Said{Role::kLeads, {7, 11}});
  EXPECT_THAT(led_, ElementsAre(0, 2, 2)) << "a new term too";
  Say(1, Follower::Said{Role::kStandsBy, {7, 11}});
  EXPECT_THAT(standing_by_, ElementsAre(1, 1)) << "each time";
}

TEST_F(LeaderWatchTest, ACallThatEndsIsNoClaimAnyMoreAndIsBegunAgain) {
  Watch(2);
  Say(0, Follower::Said{Role::kLeads, {7, 5}});
  Say(0, Follower::Ended{"gone"});
  EXPECT_THAT(led_, ElementsAre(0, -1));
  EXPECT_TRUE(calls_[0]->over);
  WaitForCalls(3);
  EXPECT_EQ(calls_[2]->place, 0);
  Say(0, Follower::Said{Role::kLeads, {7, 6}});
  EXPECT_THAT(led_, ElementsAre(0, -1)) << "said over the call that is over";
  Say(2, Follower::Said{Role::kLeads, {7, 6}});
  EXPECT_THAT(led_, ElementsAre(0, -1, 0));
}

TEST_F(LeaderWatchTest, OneThatIsAloneIsLeftAloneForAWhile) {
  Watch(1);
  Say(0, Follower::Ended{"not one of several", /*alone=*/true});
  RunFor(std::chrono::milliseconds(1500));
  EXPECT_EQ(calls_.size(), 1u);
}

TEST_F(LeaderWatchTest, NothingIsToldAfterItsEnd) {
  Watch(1);
  calls_[0]->handler(Follower::Said{Role::kLeads, {7, 5}});
  watch_.reset();
  EXPECT_TRUE(calls_[0]->over);
  Settle();
  EXPECT_TRUE(led_.empty());
}

}  // namespace leader_watch_test
}  // namespace ddprun
