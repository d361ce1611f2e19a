// Clients of several rendezvous: one leads, the others are waiting rendezvous.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/client/channel_source.h"
#include "rendezvous/client/follower.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "rendezvous/client/operator_client.h"
#include "rendezvous/client/report_gone.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/client/fake_rendezvous.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace several_test {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

GrpcRendezvousClient::Options Sharing(const std::shared_ptr<ChannelSource>& source) {
  GrpcRendezvousClient::Options options;
  options.endpoint = source->endpoint();
  options.shared = source;
  return options;
}

// The result of one session: "opened", or the reason of its loss.
std::string Try(const std::shared_ptr<ChannelSource>& source) {
  std::promise<std::string> outcome;
  bool told = false;
  GrpcRendezvousClient client(Sharing(source));
  client.Open([&](const RendezvousClient::Event& event) {
    if (std::exchange(told, true)) return;
    const auto* const lost = std::get_if<RendezvousClient::Lost>(&event);
    outcome.set_value(lost == nullptr ? "opened" : lost->reason);
  });
  auto future = outcome.get_future();
  if (future.wait_for(kTestDeadline) != std::future_status::ready) return "nothing";
  client.Abandon();
  return future.get();
}

TEST(SharedConnectionTest, ASessionAfterATakeoverUsesTheConnectionThatIsThere) {
  FakeRendezvous rendezvous;
  const auto source = std::make_shared<ChannelSource>(rendezvous.endpoint(), nullptr);
  const auto follower = Follow(source, [](const Follower::Event&) {});
  EXPECT_EQ(Try(source), absl::StrCat("the rendezvous at ", rendezvous.endpoint(),
                                      " stands by: the leader is at h2:29400"));
  rendezvous.Lead(5);
  EXPECT_EQ(Try(source), "opened");
  const auto peers = rendezvous.peers();
  EXPECT_THAT(peers, AllOf(SizeIs(3), Each(peers.front())));
}

TEST(SharedConnectionTest, WhereItIsGoneTheNextSessionMakesANewOneAtOnce) {
  auto rendezvous = std::make_unique<FakeRendezvous>();
  const auto source = std::make_shared<ChannelSource>(rendezvous->endpoint(), nullptr);
  rendezvous->Lead(5);
  EXPECT_EQ(Try(source), "opened");
  const int port = rendezvous->port();
  rendezvous.reset();
  // Refused, or cut off while it was opened: gRPC may not have seen the end of the old connection.
  EXPECT_THAT(Try(source), HasSubstr("cannot reach the rendezvous at "));
  rendezvous = std::make_unique<FakeRendezvous>(port);
  rendezvous->Lead(6);
  EXPECT_EQ(Try(source), "opened") << "gRPC would wait, and say what it had heard before";
}

// The refused attempt may be an earlier one, of another call. So it does not prove that nobody
// listens now.
TEST(SharedConnectionTest, ARefusalIsNotSaidToBeOne) {
  FakeRendezvous rendezvous;
  const auto source = std::make_shared<ChannelSource>(rendezvous.endpoint(), nullptr);
  rendezvous.Stop();
  EventInbox inbox;
  GrpcRendezvousClient client(Sharing(source));
  client.Open(inbox.Handler());
  EXPECT_FALSE(inbox.TakeLost().refused);
  client.Close();
}

// The loop of the agent would wait in vain for a rendezvous whose machine has lost power.
TEST(AbandonTest, TheNetworkIsNotWaitedFor) {
  FakeRendezvous rendezvous;
  rendezvous.Lead(5);
  std::promise<void> opened;
  GrpcRendezvousClient client({.endpoint = rendezvous.endpoint()});
  client.Open([&](const RendezvousClient::Event& event) {
    if (std::holds_alternative<RendezvousClient::Opened>(event)) opened.set_value();
  });
  opened.get_future().wait();
  const auto begin = std::chrono::steady_clock::now();
  client.Abandon();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took, milliseconds(900)) << "Close would wait for a second";
  EXPECT_TRUE(rendezvous.WaitUntilAbandoned(kTestDeadline));
}

class SeveralTest : public testing::Test {
 protected:
  std::vector<RendezvousPlace> places() const {
    return {{a_.endpoint()}, {b_.endpoint()}, {c_.endpoint()}};
  }
  OperatorClient::Options Options(milliseconds timeout = kTestDeadline) const {
    return {places(), timeout};
  }

  FakeRendezvous a_;
  FakeRendezvous b_;
  FakeRendezvous c_;
};

TEST_F(SeveralTest, TheLeaderAnswersOperators) {
  b_.Lead(5);
  OperatorClient client(Options());
  EXPECT_EQ(client.Status("").value_or("nothing"), absl::StrCat("of ", b_.port()));
  EXPECT_EQ(client.endpoint(), b_.endpoint());
  b_.StandBy();
  c_.Lead(9);
  EXPECT_EQ(client.Status("").value_or("nothing"), absl::StrCat("of ", c_.port()));
}

TEST_F(SeveralTest, ALeaderThatIsGoneIsNotWaitedForWhereAnotherOneLeads) {
  a_.Lead(5);
  OperatorClient client(Options());
  EXPECT_EQ(client.Status("").value_or("nothing"), absl::StrCat("of ", a_.port()));
  a_.Stop();
  c_.Lead(9);
  EXPECT_EQ(client.Status("").value_or("nothing"), absl::StrCat("of ", c_.port()));
}

TEST_F(SeveralTest, AQuestionDuringATakeoverIsAnsweredByTheNewLeader) {
  a_.Stop();
  std::thread takeover([this] {
    // So that the question finds no leader. If it comes later than this, the test shows nothing.
    std::this_thread::sleep_for(milliseconds(100));
    b_.Lead(9);
  });
  OperatorClient client(Options());
  EXPECT_EQ(client.Status("").value_or("nothing"), absl::StrCat("of ", b_.port()));
  takeover.join();
}

TEST_F(SeveralTest, WhereNobodyLeadsEachIsQuoted) {
  b_.Stop();
  OperatorClient client(Options(milliseconds(200)));
  const absl::Status status = client.Status("").status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith("no rendezvous leads (--rdzv-endpoint): "),
                    HasSubstr(a_.endpoint() + " stands by; "),
                    HasSubstr(b_.endpoint() + " cannot be asked (connection refused); "),
                    HasSubstr(c_.endpoint() + " stands by")));
}

TEST_F(SeveralTest, AllAreGone) {
  a_.Stop();
  b_.Stop();
  c_.Stop();
  OperatorClient client(Options());
  EXPECT_THAT(std::string(client.Status("").status().message()), StartsWith("no rendezvous leads"));
}

TEST_F(SeveralTest, AGuardianTellsTheLeaderWhereverItIs) {
  c_.Lead(5);
  a_.Stop();
  EXPECT_TRUE(ReportGone(places(), HeaderOf("job", 3), kTestDeadline).ok());
  EXPECT_EQ(b_.reports(), 0);
  EXPECT_EQ(c_.reports(), 1);
}

// `a` does not know yet that another one leads, and answers as before. Fails if the report ends
// with the first OK.
TEST_F(SeveralTest, AGuardianTellsTheNewestOfThoseWhoSayThatTheyLead) {
  a_.Lead(5);
  c_.Lead(9);
  EXPECT_TRUE(ReportGone(places(), HeaderOf("job", 3), kTestDeadline).ok());
  EXPECT_EQ(c_.reports(), 1);
}

// Fails if the guardian does not ask again who leads.
TEST_F(SeveralTest, AGuardianTellsTheNextLeaderToo) {
  a_.Lead(5);
  a_.OnReport([this] { c_.Lead(9); });
  EXPECT_TRUE(ReportGone(places(), HeaderOf("job", 3), kTestDeadline).ok());
  EXPECT_EQ(a_.reports(), 1);
  EXPECT_EQ(c_.reports(), 1);
}

TEST_F(SeveralTest, AGuardianGoesOnUntilSomebodyLeads) {
  std::thread takeover([this] {
    std::this_thread::sleep_for(milliseconds(100));
    b_.Lead(9);
  });
  EXPECT_TRUE(ReportGone(places(), HeaderOf("job", 3), kTestDeadline).ok());
  takeover.join();
  EXPECT_EQ(b_.reports(), 1);
}

TEST_F(SeveralTest, AGuardianGivesUpInTime) {
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = ReportGone(places(), HeaderOf("job", 3), milliseconds(150));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kTestDeadline);
}

}  // namespace several_test
}  // namespace ddprun
