// Tests GrpcRendezvousClient with a rendezvous that is late, absent, gone or sends nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "rendezvous/client/refusal_check.h"
#include "rendezvous/service/rendezvous_server.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace client_test {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// Reserves a loopback port, as the agent reserves its MASTER_PORT. Nobody listens on it before
// Listen().
class HeldPort {
 public:
  HeldPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    EXPECT_EQ(setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    socklen_t length = sizeof name;
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &length), 0);
    endpoint_ = absl::StrCat("127.0.0.1:", ntohs(name.sin_port));
  }
  ~HeldPort() { close(fd_); }

  // Accepts connections into the backlog, where nobody answers them.
  void Listen() { EXPECT_EQ(listen(fd_, 16), 0); }
  const std::string& endpoint() const { return endpoint_; }
  // The same port, with a host name that may have several addresses.
  std::string endpoint_by_name() const {
    return absl::StrCat("localhost", endpoint_.substr(endpoint_.rfind(':')));
  }

 private:
  const int fd_;
  std::string endpoint_;
};

std::unique_ptr<RendezvousServer> StartServer(const std::string& listen) {
  auto server = RendezvousServer::Start({.listen = listen,
                                         .machine = {.leases = false},
                                         .log = [](std::string_view, std::string_view) {}});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(GrpcRendezvousClientTest, ASocketThatDoesNotExistIsExplained) {
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = "unix:/nonexistent-folder/rdzv",
                               .connect_timeout = std::chrono::milliseconds(50)});
  client.Open(inbox.Handler());
  EXPECT_THAT(inbox.ExpectLost(), HasSubstr("no such file or directory"));
}

TEST(GrpcRendezvousClientTest, OpenedComesBeforeAnythingIsSentOrReceived) {
  const auto server = StartServer("127.0.0.1:0");
  std::promise<bool> first_is_opened;
  GrpcRendezvousClient client({.endpoint = absl::StrCat("127.0.0.1:", server->port())});
  client.Open([&, first = true](const RendezvousClient::Event& event) mutable {
    if (!std::exchange(first, false)) return;
    first_is_opened.set_value(std::holds_alternative<RendezvousClient::Opened>(event));
  });
  EXPECT_TRUE(first_is_opened.get_future().get());
  client.Close();
}

TEST(GrpcRendezvousClientTest, OneAttemptThatIsRefusedSaysSoAtOnceAndWhenItBegan) {
  const HeldPort port;
  for (const std::string& endpoint : {port.endpoint(), port.endpoint_by_name()}) {
    EventInbox inbox;
    const auto before = std::chrono::steady_clock::now();
    GrpcRendezvousClient client({.endpoint = endpoint});
    client.Open(inbox.Handler());
    const auto opened = std::chrono::steady_clock::now();
    const RendezvousClient::Lost lost = inbox.TakeLost();
    EXPECT_EQ(lost.reason, "cannot reach the rendezvous at " + endpoint + ": connection refused");
    EXPECT_TRUE(lost.refused);
    EXPECT_GE(lost.attempt_started_at, before);
    EXPECT_LE(lost.attempt_started_at, opened);
    client.Send(HeaderOf("job", 1), Heartbeat{});
    client.Close();
    EXPECT_TRUE(inbox.empty()) << "Lost comes once";
  }
}

TEST(GrpcRendezvousClientTest, SilenceIsNoRefusal) {
  HeldPort port;
  port.Listen();
  EventInbox inbox;
  GrpcRendezvousClient client(
      {.endpoint = port.endpoint(), .connect_timeout = std::chrono::milliseconds(100)});
  client.Open(inbox.Handler());
  const RendezvousClient::Lost lost = inbox.TakeLost();
  EXPECT_FALSE(lost.refused);
  EXPECT_EQ(lost.reason,
            "cannot reach the rendezvous at " + port.endpoint() + ": no answer within 0.1s");
}

TEST(GrpcRendezvousClientTest, ASessionThatEndsIsNoRefusal) {
  auto server = StartServer("127.0.0.1:0");
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = absl::StrCat("127.0.0.1:", server->port())});
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1), JoinOf("n1", 1));
  inbox.Expect<Assignment>();
  server.reset();
  EXPECT_FALSE(inbox.TakeLost().refused);
}

TEST(RefusalCheckTest, OneAddressThatIsNotRefusedIsEnoughToDoubt) {
  HeldPort port;
  EXPECT_TRUE(EveryAddressRefuses(port.endpoint(), kTestDeadline));
  EXPECT_TRUE(EveryAddressRefuses(port.endpoint_by_name(), kTestDeadline));
  port.Listen();
  EXPECT_FALSE(EveryAddressRefuses(port.endpoint(), kTestDeadline));
  EXPECT_FALSE(EveryAddressRefuses(port.endpoint_by_name(), kTestDeadline))
      << "where localhost is ::1 too, that one refuses and 127.0.0.1 does not";
}

TEST(RefusalCheckTest, ANameWithoutAnAddressRefusesNothing) {
  EXPECT_FALSE(EveryAddressRefuses("no-such-host.invalid:1", kTestDeadline));
}

TEST(RefusalCheckTest, KnowsWhereThereIsOneAddressOnly) {
  for (const char* one : {"127.0.0.1:1", "[::1]:29400", "unix:/tmp/socket"}) {
    EXPECT_TRUE(IsOneAddress(one)) << one;
  }
  EXPECT_FALSE(IsOneAddress("localhost:1"));
  EXPECT_FALSE(IsOneAddress("node1.cluster:29400"));
}

TEST(GrpcRendezvousClientTest, AServerThatGoesAwayIsLostOnce) {
  auto server = StartServer("127.0.0.1:0");
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = absl::StrCat("127.0.0.1:", server->port())});
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 1));
  inbox.Expect<Assignment>();
  server.reset();
  EXPECT_THAT(inbox.ExpectLost(), HasSubstr("the rendezvous is shutting down"));
  client.Send(HeaderOf("job", 1), Heartbeat{});
  client.Close();
  EXPECT_TRUE(inbox.empty());
}

// Seen red with a Close() that cancels at once.
TEST(GrpcRendezvousClientTest, CloseWritesWhatIsQueued) {
  const auto server = StartServer("127.0.0.1:0");
  const std::string endpoint = absl::StrCat("127.0.0.1:", server->port());
  EventInbox inbox_of_leaver;
  EventInbox inbox;
  GrpcRendezvousClient leaver({.endpoint = endpoint});
  GrpcRendezvousClient other({.endpoint = endpoint});
  leaver.Open(inbox_of_leaver.Handler());
  other.Open(inbox.Handler());
  leaver.Send(HeaderOf("job", 1, -1), JoinOf("n1", 2));
  other.Send(HeaderOf("job", 2, -1), JoinOf("n2", 2));
  inbox_of_leaver.Expect<Assignment>();
  inbox.Expect<Assignment>();
  for (int i = 0; i < 500; ++i) leaver.Send(HeaderOf("job", 1), AssignmentAck{});
  leaver.Send(HeaderOf("job", 1), Leave{"SIGTERM", 143});
  leaver.Close();
  EXPECT_THAT(inbox.Expect<Finished>().reason, HasSubstr("n1 left (SIGTERM)"));
}

TEST(GrpcRendezvousClientTest, CloseWithoutAConnectionReturnsAtOnceAndIsNoLost) {
  HeldPort port;
  port.Listen();  // and nobody answers
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = port.endpoint()});
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 1));
  client.Close();
  client.Close();
  EXPECT_TRUE(inbox.empty());
}

TEST(GrpcRendezvousClientTest, AClientThatWasNeverOpenedIsClosedQuietly) {
  GrpcRendezvousClient client({.endpoint = "127.0.0.1:1"});
  client.Close();
}

// Seen red without GRPC_ARG_ENABLE_HTTP_PROXY=0.
TEST(GrpcRendezvousClientTest, AProxyOfTheEnvironmentIsNotUsed) {
  const HeldPort proxy;  // would refuse
  setenv("http_proxy", ("http://" + proxy.endpoint()).c_str(), 1);
  const auto server = StartServer("127.0.0.1:0");
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = absl::StrCat("127.0.0.1:", server->port())});
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 1));
  inbox.Expect<Assignment>();
  unsetenv("http_proxy");
}

TEST(GrpcRendezvousClientTest, TooManyWaitingMessagesEndTheSession) {
  HeldPort port;
  port.Listen();
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = port.endpoint()});
  client.Open(inbox.Handler());
  for (int i = 0; i < 2000; ++i) client.Send(HeaderOf("job", 1), Heartbeat{});
  EXPECT_TRUE(inbox.empty()) << "heartbeats that have to wait do not pile up";
  for (int i = 0; i < 1025; ++i) client.Send(HeaderOf("job", 1), AssignmentAck{});
  EXPECT_EQ(inbox.ExpectLost(),
            "the rendezvous at " + port.endpoint() + " does not read: 1024 messages wait for it");
}

// Also behind a Join: after a takeover the answer to this heartbeat is the first acknowledgement of
// the new leader. Seen red when a heartbeat that had to wait was not sent.
TEST(GrpcRendezvousClientTest, AHeartbeatWaitsForWhatWasSaidBeforeIt) {
  const auto server = StartServer("127.0.0.1:0");
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = absl::StrCat("127.0.0.1:", server->port())});
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 2));
  client.Send(HeaderOf("job", 1, -1), Heartbeat{7, std::nullopt});
  EXPECT_EQ(inbox.Expect<HeartbeatAck>().sent_at, 7);
}

// The agent does not repeat these reports, so such a heartbeat must not be dropped.
TEST(GrpcRendezvousClientTest, AHeartbeatWithNewsWaitsForItsTurn) {
  HeldPort port;
  port.Listen();
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = port.endpoint()});
  client.Open(inbox.Handler());
  Heartbeat failures;
  failures.failed_checkpoints = {1, 120, "disk full"};
  const Heartbeat states{0, {}, {{0, Generation{0}, 120, Tier::kMemory}}};
  for (int i = 0; i < 512; ++i) {
    client.Send(HeaderOf("job", 1), failures);
    client.Send(HeaderOf("job", 1), states);
  }
  EXPECT_TRUE(inbox.empty());
  client.Send(HeaderOf("job", 1), AssignmentAck{});
  EXPECT_THAT(inbox.ExpectLost(), HasSubstr("1024 messages wait for it"));
}

// Otherwise a reader of logs could delay heartbeats until the node's lease ends.
TEST(GrpcRendezvousClientTest, PiecesOfLogFilesLetHeartbeatsPass) {
  const auto server = StartServer("127.0.0.1:0");
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = absl::StrCat("127.0.0.1:", server->port())});
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 1));
  inbox.Expect<Assignment>();
  const std::string text(kMaxLogPieceBytes, 'x');
  for (int i = 0; i < 1500; ++i) client.Send(HeaderOf("job", 1), LogPiece{LogReadingId{1}, text});
  client.Send(HeaderOf("job", 1), Heartbeat{7, std::nullopt});
  EXPECT_EQ(inbox.Expect<HeartbeatAck>().sent_at, 7);
  client.Close();
}

}  // namespace client_test
}  // namespace ddprun
