// Tests a rendezvous that other hosts can reach, without TLS files, and an attacker's relay between
// client and rendezvous (tests/support/relay.h).
#include "tests/support/relay.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/auth/server_credentials.h"
#include "rendezvous/auth/tls/transport.h"
#include "rendezvous/client/channel.h"
#include "rendezvous/client/connect_error.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "rendezvous/client/report_gone.h"
#include "rendezvous/service/rendezvous_server.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace relay_test {

using auth::ClientCredentials;
using auth::CredentialOptions;
using ::testing::HasSubstr;

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";
constexpr std::chrono::seconds kLimit{20};

std::chrono::system_clock::time_point Deadline() {
  return std::chrono::system_clock::now() + kLimit;
}

class RelayTest : public testing::Test {
 protected:
  // `reachable`: whether the side that uses it believes that other hosts can reach the rendezvous.
  // All of these tests run on loopback.
  CredentialOptions Token(bool reachable) {
    CredentialOptions options;
    options.token_file = folder_ / "token";
    std::ofstream(options.token_file) << kSecret << "\n";
    EXPECT_EQ(chmod(options.token_file.c_str(), 0600), 0);
    options.reachable = reachable;
    return options;
  }
  void Serve(const CredentialOptions& options, const std::string& listen = "127.0.0.1:0") {
    auto credentials = auth::LoadServerCredentials(options);
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    RendezvousServer::Options server;
    server.listen = listen;
    server.machine.leases = false;
    server.log = [](std::string_view, std::string_view) {};
    server.credentials = *credentials;
    auto started = RendezvousServer::Start(std::move(server));
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    endpoint_ = absl::StrCat("127.0.0.1:", server_->port());
  }
  static std::shared_ptr<const ClientCredentials> Load(const CredentialOptions& options) {
    auto credentials = ClientCredentials::Load(options);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return *credentials;
  }

  struct Agent {
    EventInbox inbox;
    std::unique_ptr<GrpcRendezvousClient> client;  // destroyed first: it calls the inbox
  };
  // One attempt to join.
  static std::unique_ptr<Agent> Join(const std::string& endpoint,
                                     std::shared_ptr<const ClientCredentials> credentials) {
    auto agent = std::make_unique<Agent>();
    agent->client = std::make_unique<GrpcRendezvousClient>(
        GrpcRendezvousClient::Options{endpoint, kLimit, std::move(credentials)});
    agent->client->Open(agent->inbox.Handler());
    agent->client->Send(HeaderOf("job", 1), JoinOf("n1", 1));
    return agent;
  }
  std::uint64_t Refused(const std::string& reason) { return server_->Refusals()[reason]; }

  TempDir folder_;
  std::string endpoint_;
  std::unique_ptr<RendezvousServer> server_;
};

TEST_F(RelayTest, ATokenTravelsOverTlsWithoutAnyFile) {
  Serve(Token(true));
  const auto credentials = Load(Token(true));
  EXPECT_EQ(credentials->NewTransport().tls, ClientCredentials::Transport::Tls::kUnverified);
  EXPECT_EQ(Join(endpoint_, credentials)->inbox.Expect<Assignment>().world_size, 1);
  EXPECT_TRUE(server_->Refusals().empty());
}

// A rendezvous that listens on all addresses is also reached by loopback.
TEST_F(RelayTest, AnAgentOnLoopbackLearnsThatTheRendezvousSpeaksTls) {
  Serve(Token(true));
  const auto credentials = Load(Token(false));
  const auto lost = Join(endpoint_, credentials)->inbox.TakeLost();
  EXPECT_FALSE(lost.denied) << lost.reason;
  EXPECT_EQ(Join(endpoint_, credentials)->inbox.Expect<Assignment>().world_size, 1);
}

TEST_F(RelayTest, AGuardianAndAnOperatorLearnItToo) {
  Serve(Token(true));
  EXPECT_TRUE(ReportGone({{endpoint_, Load(Token(false))}}, HeaderOf("job", 1), kLimit).ok());
  RenewableChannel operators(endpoint_, Load(Token(false)));
  EXPECT_NE(operators.Reach(Deadline()).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(RelayTest, AnAgentLearnsThatTheRendezvousDoesNotSpeakTlsAnyMore) {
  Serve(Token(true));
  const std::string endpoint = endpoint_;
  const auto credentials = Load(Token(false));
  Join(endpoint, credentials)->inbox.TakeLost();
  server_.reset();
  Serve(Token(false), endpoint);
  const auto lost = Join(endpoint, credentials)->inbox.TakeLost();
  EXPECT_THAT(lost.reason, HasSubstr("does not speak TLS"));
  EXPECT_FALSE(lost.denied);
  EXPECT_EQ(Join(endpoint, credentials)->inbox.Expect<Assignment>().world_size, 1);
}

TEST_F(RelayTest, AnAgentWithoutCredentialsIsToldWhatIsAskedFor) {
  Serve(Token(true));
  const auto nobody = Load({});
  EXPECT_THAT(Join(endpoint_, nobody)->inbox.ExpectLost(), HasSubstr("does it ask for TLS"));
  const auto lost = Join(endpoint_, nobody)->inbox.TakeLost();
  EXPECT_THAT(lost.reason, HasSubstr("asks for a token (--token-file)"));
  EXPECT_TRUE(lost.denied);
}

// Seen red with a client whose OnUnheard gives up TLS where other hosts can reach the rendezvous.
TEST_F(RelayTest, WhatWeHaveToShowNeverTravelsWithoutTlsBeyondLoopback) {
  Serve(Token(false));
  const auto credentials = Load(Token(true));
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto lost = Join(endpoint_, credentials)->inbox.TakeLost();
    EXPECT_THAT(lost.reason, HasSubstr("does not speak TLS"));
    EXPECT_TRUE(lost.denied);
  }
}

// Seen red with a client that does not compare the certificate that it has seen with those of the
// rendezvous.
TEST_F(RelayTest, ARelayIsNotTrusted) {
  Serve(Token(true));
  const Relay relay(endpoint_, Relay::Speaks::kTls);
  const auto lost = Join(relay.endpoint(), Load(Token(true)))->inbox.TakeLost();
  EXPECT_THAT(lost.reason, HasSubstr("somebody in between relays the messages"));
  EXPECT_TRUE(lost.denied);
  EXPECT_FALSE(
      ReportGone({{relay.endpoint(), Load(Token(true))}}, HeaderOf("job", 1), kLimit).ok());
  EXPECT_EQ(relay.heard(), 0);
}

TEST_F(RelayTest, ARelayThatTakesTlsAwayIsNotTrusted) {
  Serve(Token(true));
  const Relay relay(endpoint_, Relay::Speaks::kPlain);
  // On loopback an agent would also connect without TLS.
  const auto lost = Join(relay.endpoint(), Load(Token(false)))->inbox.TakeLost();
  EXPECT_THAT(lost.reason, HasSubstr("somebody in between relays the messages"));
  EXPECT_EQ(relay.heard(), 0);
}

// Seen red with an authenticator that accepts a proof over any certificate.
TEST_F(RelayTest, TheRendezvousRefusesAProofThatWasMadeForARelay) {
  Serve(Token(true));
  for (const auto speaks : {Relay::Speaks::kTls, Relay::Speaks::kPlain}) {
    const bool tls = speaks == Relay::Speaks::kTls;
    const Relay relay(endpoint_, speaks);
    const auto credentials = Load(Token(tls));
    const auto stub = v1::Rendezvous::NewStub(MakeChannel(relay.endpoint(), credentials.get()));
    const v1::HandshakeRequest request = credentials->NewHandshake();
    v1::HandshakeReply reply;
    grpc::ClientContext handshake;
    handshake.set_wait_for_ready(true);
    ASSERT_TRUE(stub->Handshake(&handshake, request, &reply).ok());
    grpc::ClientContext context;
    context.AddMetadata(
        auth::kProofMetadata,
        NaiveProof(request, reply, tls ? relay.certificate() : "", kSecret, "Session"));
    context.set_deadline(Deadline());
    const auto session = stub->Session(&context);
    session->WritesDone();
    v1::RendezvousMessage message;
    EXPECT_FALSE(session->Read(&message));
    const grpc::Status status = session->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_THAT(status.error_message(), HasSubstr("relays the messages"));
    EXPECT_EQ(relay.heard(), 0);
  }
  EXPECT_EQ(Refused("relayed"), 2u);
}

TEST_F(RelayTest, AChannelTakesNoOtherCertificateLater) {
  Serve(Token(true));
  const std::string endpoint = endpoint_;
  const auto credentials = Load(Token(true));
  RenewableChannel renewable(endpoint, credentials);
  EXPECT_EQ(renewable.Reach(Deadline()).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  const auto old = v1::Rendezvous::NewStub(renewable.channel());
  server_.reset();
  Serve(Token(true), endpoint);
  // Repeats the call until the channel has noticed that its connection is gone.
  const auto settled = [](const std::function<grpc::Status()>& call) {
    grpc::Status status = call();
    while (IsClosedByPeer(status.error_message())) status = call();
    return status;
  };
  const grpc::Status refused = settled([&] {
    grpc::ClientContext context;
    context.set_deadline(Deadline());
    v1::HandshakeReply reply;
    return old->Handshake(&context, {}, &reply);
  });
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(), HasSubstr(auth::kCertificateChanged));
  // Reach() makes another channel for the new certificate.
  const grpc::Status renewed = settled([&] { return renewable.Reach(Deadline()); });
  EXPECT_EQ(renewed.error_code(), grpc::StatusCode::UNAUTHENTICATED) << renewed.error_message();
}

}  // namespace relay_test
}  // namespace ddprun
