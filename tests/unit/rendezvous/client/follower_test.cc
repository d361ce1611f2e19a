#include "rendezvous/client/follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "rendezvous/client/channel_source.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/client/fake_rendezvous.h"

namespace ddprun {
namespace follower_test {

class Inbox {
 public:
  Follower::Handler Handler() {
    return [this](Follower::Event event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
      arrived_.notify_all();
    };
  }
  Follower::Event Next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kTestDeadline, [this] { return !events_.empty(); })) {
      ADD_FAILURE() << "no event within the deadline";
      return Follower::Ended{"nothing came"};
    }
    Follower::Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  Follower::Said Said() {
    const Follower::Event event = Next();
    const auto* const said = std::get_if<Follower::Said>(&event);
    if (said == nullptr) {
      ADD_FAILURE() << "it ended: " << std::get<Follower::Ended>(event).reason;
      return {};
    }
    return *said;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Follower::Event> events_;
};

std::shared_ptr<ChannelSource> SourceOf(const std::string& endpoint) {
  return std::make_shared<ChannelSource>(endpoint, nullptr);
}

TEST(FollowerTest, HearsAtOnceWhatItIsAndThenEachChange) {
  FakeRendezvous rendezvous;
  Inbox inbox;
  const auto follower = Follow(SourceOf(rendezvous.endpoint()), inbox.Handler());
  EXPECT_EQ(inbox.Said().role, Follower::Role::kStandsBy);
  rendezvous.Lead(5);
  const Follower::Said leads = inbox.Said();
  EXPECT_EQ(leads.role, Follower::Role::kLeads);
  EXPECT_EQ(leads.term, (Term{7, 5}));
  rendezvous.Say(2, 5);
  EXPECT_EQ(inbox.Said().role, Follower::Role::kCutOff);
  rendezvous.Say(3, 5);
  EXPECT_EQ(inbox.Said().role, Follower::Role::kHandsOver);
  rendezvous.Say(9, 5);
  EXPECT_EQ(inbox.Said().role, Follower::Role::kStandsBy) << "what a later version may say";
}

TEST(FollowerTest, TheEndOfTheProcessIsTold) {
  FakeRendezvous rendezvous;
  Inbox inbox;
  const auto follower = Follow(SourceOf(rendezvous.endpoint()), inbox.Handler());
  inbox.Said();
  rendezvous.Stop();
  const Follower::Event end = inbox.Next();
  ASSERT_TRUE(std::holds_alternative<Follower::Ended>(end));
  EXPECT_FALSE(std::get<Follower::Ended>(end).alone);
}

TEST(FollowerTest, NobodyListensThere) {
  FakeRendezvous rendezvous;
  const std::string endpoint = rendezvous.endpoint();
  rendezvous.Stop();
  Inbox inbox;
  const auto follower = Follow(SourceOf(endpoint), inbox.Handler());
  const Follower::Event end = inbox.Next();
  ASSERT_TRUE(std::holds_alternative<Follower::Ended>(end));
  EXPECT_EQ(std::get<Follower::Ended>(end).reason, "connection refused");
}

TEST(FollowerTest, OneThatDoesNotKnowTheCallIsAlone) {
  v1::Operator::Service other;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&other);
  const auto server = builder.BuildAndStart();
  Inbox inbox;
  const auto follower = Follow(SourceOf(absl::StrCat("127.0.0.1:", port)), inbox.Handler());
  const Follower::Event end = inbox.Next();
  ASSERT_TRUE(std::holds_alternative<Follower::Ended>(end));
  EXPECT_TRUE(std::get<Follower::Ended>(end).alone);
}

}  // namespace follower_test
}  // namespace ddprun
