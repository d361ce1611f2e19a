// Tests Follow over real connections, and the PeerLink of a waiting rendezvous, which uses Follow.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/service/leadership/leader_board.h"
#include "rendezvous/service/leadership/peer_link.h"
#include "rendezvous/service/rendezvous_server.h"

namespace ddprun {
namespace follow_test {

using Role = Leading::Role;

constexpr std::chrono::seconds kHang{60};

// A Follow call that stays open.
class Call {
 public:
  Call(const std::string& endpoint, int interval_ms)
      : stub_(v1::Rendezvous::NewStub(
            grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials()))) {
    context_.set_deadline(std::chrono::system_clock::now() + kHang);
    v1::FollowRequest request;
    request.set_interval_ms(interval_ms);
    reader_ = stub_->Follow(&context_, request);
  }
  ~Call() {
    context_.TryCancel();
    Finish();
  }
  v1::Leading Next() {
    v1::Leading message;
    EXPECT_TRUE(reader_->Read(&message));
    return message;
  }
  // Whether a message came: false if the call was refused.
  bool Hears() {
    v1::Leading message;
    return reader_->Read(&message);
  }
  // Reads all messages, and returns the status of the call.
  grpc::Status Finish() {
    if (finished_) return grpc::Status::OK;
    finished_ = true;
    v1::Leading message;
    while (reader_->Read(&message)) continue;
    return reader_->Finish();
  }

 private:
  const std::unique_ptr<v1::Rendezvous::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::Leading>> reader_;
  bool finished_ = false;
};

class FollowTest : public testing::Test {
 protected:
  FollowTest() { StartServer(0); }
  void StartServer(int port) {
    board_ = std::make_shared<LeaderBoard>(&validity_);
    auto server = RendezvousServer::Start({.listen = absl::StrCat("127.0.0.1:", port),
                                           .log = [](std::string_view, std::string_view) {},
                                           .board = board_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    endpoint_ = absl::StrCat("127.0.0.1:", server_->port());
  }

  Validity validity_;
  std::shared_ptr<LeaderBoard> board_;
  std::unique_ptr<RendezvousServer> server_;
  std::string endpoint_;
};

TEST_F(FollowTest, IsToldAtOnceAndAtEachChange) {
  Call call(endpoint_, 0);
  EXPECT_EQ(call.Next().role(), 0U);
  board_->Set({Role::kLeads, {7, 12}, "h1:29400"});
  const v1::Leading leads = call.Next();
  EXPECT_EQ(leads.role(), 1U);
  EXPECT_EQ(leads.term(), 12U);
  EXPECT_EQ(leads.cluster(), 7U);
  EXPECT_EQ(leads.leader(), "h1:29400");
  board_->Set({Role::kStandsBy, {7, 13}, "h2:29400"});
  EXPECT_EQ(call.Next().role(), 0U);
}

TEST_F(FollowTest, IsToldAtItsInterval) {
  Call call(endpoint_, 100);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call.Next().role(), 0U);
}

// Seen red with a board that tells every follower about each change.
TEST_F(FollowTest, AnAgentIsToldOfTheRoleAloneAndARendezvousOfEachChange) {
  Call agent(endpoint_, 0);
  Call rendezvous(endpoint_, 60'000);
  for (Call* const call : {&agent, &rendezvous}) EXPECT_EQ(call->Next().role(), 0U);
  board_->Set({Role::kStandsBy, {7, 11}, "h2:29400"});
  EXPECT_EQ(rendezvous.Next().term(), 11U);
  board_->Set({Role::kTakesUp, {7, 12}, "h1:29400"});
  EXPECT_EQ(rendezvous.Next().role(), 4U);
  board_->Set({Role::kLeads, {7, 12}, "h1:29400"});
  EXPECT_EQ(rendezvous.Next().role(), 1U);
  EXPECT_EQ(agent.Next().role(), 1U) << "the second message";
  board_->Set({Role::kHandsOver, {7, 12}, "h1:29400"});
  EXPECT_EQ(rendezvous.Next().role(), 3U);
  board_->Set({Role::kSilenced, {7, 12}, "h1:29400"});
  EXPECT_EQ(agent.Next().role(), 2U) << "the third message";
}

TEST_F(FollowTest, ManyAreToldOfAChange) {
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 200; ++i) calls.push_back(std::make_unique<Call>(endpoint_, 0));
  for (const auto& call : calls) EXPECT_EQ(call->Next().role(), 0U);
  board_->Set({Role::kLeads, {7, 12}, endpoint_});
  for (const auto& call : calls) EXPECT_EQ(call->Next().role(), 1U);
}

TEST_F(FollowTest, EndsWithTheServer) {
  Call call(endpoint_, 0);
  call.Next();
  server_->Shutdown();
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// A call that ended without a notice gives back its slot.
TEST_F(FollowTest, AnAddressHasFewThatWantToHearOften) {
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 16; ++i) {
    calls.push_back(std::make_unique<Call>(endpoint_, 60'000));
    calls.back()->Next();
  }
  Call refused(endpoint_, 60'000);
  EXPECT_EQ(refused.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(server_->Refusals()["too_many_streams"], 1U);
  Call at_changes(endpoint_, 0);
  at_changes.Next();
  calls.clear();
  while (!Call(endpoint_, 60'000).Hears()) continue;  // the server hears of their end soon
}

TEST_F(FollowTest, AnIntervalOutOfItsBoundsIsRefused) {
  Call call(endpoint_, 99);
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(FollowAloneTest, ARendezvousThatIsAloneHasNoSuchCall) {
  auto server = RendezvousServer::Start(
      {.listen = "127.0.0.1:0", .log = [](std::string_view, std::string_view) {}});
  ASSERT_TRUE(server.ok()) << server.status();
  Call call(absl::StrCat("127.0.0.1:", (*server)->port()), 0);
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// What a PeerLink has reported.
class Reports {
 public:
  PeerLink::Report Report() {
    return [this](Leadership::Event event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
      changed_.notify_one();
    };
  }
  // Waits for one of this kind, and drops the others.
  template <class Kind>
  bool Expect() {
    std::unique_lock lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + kHang;
    for (;;) {
      while (!events_.empty()) {
        const Leadership::Event event = std::move(events_.front());
        events_.pop_front();
        if (std::holds_alternative<Kind>(event)) return true;
      }
      if (changed_.wait_until(lock, until) == std::cv_status::timeout) return false;
    }
  }
  // Whether one of this kind has come.
  template <class Kind>
  bool Has() {
    const std::lock_guard lock(mutex_);
    for (const auto& event : events_) {
      if (std::holds_alternative<Kind>(event)) return true;
    }
    return false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Leadership::Event> events_;
};

class PeerLinkTest : public FollowTest {
 protected:
  Reports reports_;
  PeerLink link_{&grpc::InsecureChannelCredentials, reports_.Report()};
};

TEST_F(PeerLinkTest, ALeaderIsHeardAgainAndAgain) {
  board_->Set({Role::kLeads, {7, 12}, endpoint_});
  link_.Watch(endpoint_);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(reports_.Expect<Leadership::PeerHeard>());
}

TEST_F(PeerLinkTest, OneThatHandsOverIsToldAtOnce) {
  board_->Set({Role::kLeads, {7, 12}, endpoint_});
  link_.Watch(endpoint_);
  EXPECT_TRUE(reports_.Expect<Leadership::PeerHeard>());
  board_->Set({Role::kHandsOver, {7, 12}, endpoint_});
  EXPECT_TRUE(reports_.Expect<Leadership::PeerResigns>());
}

TEST_F(PeerLinkTest, AProcessThatIsGoneIsTold) {
  board_->Set({Role::kLeads, {7, 12}, endpoint_});
  link_.Watch(endpoint_);
  EXPECT_TRUE(reports_.Expect<Leadership::PeerHeard>());
  server_.reset();
  EXPECT_TRUE(reports_.Expect<Leadership::PeerRefused>());
}

// A standby sends messages too, but they must not count as signs of a leader.
TEST_F(PeerLinkTest, OneThatStandsByIsNotHeard) {
  link_.Watch(endpoint_);
  Call call(endpoint_, 100);
  for (int i = 0; i < 3; ++i) call.Next();
  EXPECT_FALSE(reports_.Has<Leadership::PeerHeard>());
  board_->Set({Role::kTakesUp, {7, 12}, endpoint_});
  EXPECT_TRUE(reports_.Expect<Leadership::PeerHeard>());
}

TEST_F(PeerLinkTest, OneThatIsStartedAgainIsFound) {
  link_.Watch(endpoint_);
  const int port = server_->port();
  server_.reset();
  EXPECT_TRUE(reports_.Expect<Leadership::PeerRefused>());
  StartServer(port);
  board_->Set({Role::kLeads, {7, 13}, endpoint_});
  EXPECT_TRUE(reports_.Expect<Leadership::PeerHeard>());
}

}  // namespace follow_test
}  // namespace ddprun
