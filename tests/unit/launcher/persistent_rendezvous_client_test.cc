#include "launcher/persistent_rendezvous_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using testing::ElementsAre;

constexpr std::chrono::seconds kHang{60};

// What one attempt to connect did; it outlives the client that made it.
struct Attempt {
  std::vector<AgentMessage> sent;
  bool closed = false;
  RendezvousClient::Handler handler;
};

class AttemptClient final : public RendezvousClient {
 public:
  explicit AttemptClient(std::shared_ptr<Attempt> attempt) : attempt_(std::move(attempt)) {}
  void Open(Handler handler) override { attempt_->handler = std::move(handler); }
  void Send(const Header&, const AgentMessage& message) override {
    attempt_->sent.push_back(message);
  }
  void Close() override { attempt_->closed = true; }

 private:
  const std::shared_ptr<Attempt> attempt_;
};

class PersistentRendezvousClientTest : public testing::Test {
 protected:
  void Open(Duration connect_timeout = kHang) {
    PersistentRendezvousClient::Options options;
    options.connect_timeout = connect_timeout;
    options.make_client = [this](Duration) {
      attempts_.push_back(std::make_shared<Attempt>());
      loop_.Quit();
      return std::make_unique<AttemptClient>(attempts_.back());
    };
    options.ensure_running = [this] {
      ++ensured_;
      if (ensured_ == wanted_ensured_) loop_.Quit();
    };
    client_ = std::make_unique<PersistentRendezvousClient>(&loop_, options);
    client_->Open([this](RendezvousClient::Event event) {
      const auto* lost = std::get_if<RendezvousClient::Lost>(&event);
      heard_.push_back(lost == nullptr ? "message" : "lost: " + lost->reason);
      loop_.Quit();
    });
    loop_.Run();  // returns at once: an attempt was made
  }
  // Waits until the next attempt or the next event for the agent.
  void Run() {
    const auto hang = loop_.AddTimer(EventLoop::Clock::now() + kHang, [this] {
      ADD_FAILURE() << "nothing happens";
      loop_.Quit();
    });
    loop_.Run();
    loop_.CancelTimer(hang);
  }

  EventLoop loop_;
  std::vector<std::shared_ptr<Attempt>> attempts_;
  int ensured_ = 0;
  int wanted_ensured_ = -1;
  std::vector<std::string> heard_;
  std::unique_ptr<PersistentRendezvousClient> client_;
};

TEST_F(PersistentRendezvousClientTest, ASessionLostBeforeTheFirstWordIsOpenedAnewWithTheJoin) {
  Open();
  client_->Send({}, Join{});
  client_->Send({}, Heartbeat{});
  attempts_[0]->handler(RendezvousClient::Lost{"the rendezvous is shutting down"});
  Run();
  ASSERT_EQ(attempts_.size(), 2u);
  EXPECT_TRUE(attempts_[0]->closed);
  EXPECT_THAT(attempts_[1]->sent, ElementsAre(AgentMessage(Join{})));
  attempts_[1]->handler(RendezvousClient::Received{{}, Start{}});
  Run();
  EXPECT_THAT(heard_, ElementsAre("message"));
}

TEST_F(PersistentRendezvousClientTest, ARendezvousThatEndsWhileWeWaitForOthersIsFollowedByTheNext) {
  Open();
  client_->Send({}, Join{});
  attempts_[0]->handler(RendezvousClient::Received{{}, Waiting{}});
  Run();
  attempts_[0]->handler(RendezvousClient::Lost{"the rendezvous is shutting down"});
  Run();
  ASSERT_EQ(attempts_.size(), 2u);
  EXPECT_THAT(attempts_[1]->sent, ElementsAre(AgentMessage(Join{})));
  EXPECT_THAT(heard_, ElementsAre("message"));
}

TEST_F(PersistentRendezvousClientTest, ALossAfterTheFirstWordIsTheAgents) {
  Open();
  attempts_[0]->handler(RendezvousClient::Received{{}, Start{}});
  Run();
  attempts_[0]->handler(RendezvousClient::Lost{"gone"});
  Run();
  EXPECT_THAT(heard_, ElementsAre("message", "lost: gone"));
  EXPECT_EQ(attempts_.size(), 1u);
}

TEST_F(PersistentRendezvousClientTest, GivesUpWhenTheTimeForConnectingIsOver) {
  Open(std::chrono::milliseconds(0));
  attempts_[0]->handler(RendezvousClient::Lost{"cannot reach n1"});
  Run();
  EXPECT_THAT(heard_, ElementsAre("lost: cannot reach n1"));
}

TEST_F(PersistentRendezvousClientTest, HasTheRendezvousRunAgainWhileNothingIsHeard) {
  wanted_ensured_ = 3;
  Open();
  EXPECT_EQ(ensured_, 1) << "before the first attempt";
  Run();
  EXPECT_EQ(ensured_, 3);
  EXPECT_EQ(attempts_.size(), 1u) << "an attempt that goes on is left alone";
}

TEST_F(PersistentRendezvousClientTest, NothingIsHeardAfterClose) {
  Open();
  client_->Close();
  EXPECT_TRUE(attempts_[0]->closed);
  attempts_[0]->handler(RendezvousClient::Lost{"late"});
  loop_.Post([this] { loop_.Quit(); });
  Run();
  EXPECT_TRUE(heard_.empty());
}

}  // namespace
}  // namespace ddprun
