// Agents and a rendezvous with credentials, over real connections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/auth/server_credentials.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "rendezvous/client/report_gone.h"
#include "rendezvous/service/rendezvous_server.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace credentials_test {

using auth::ClientCredentials;
using auth::CredentialOptions;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";

class CredentialsTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }
  CredentialOptions Token(const std::string& name, const std::string& text) {
    CredentialOptions options;
    options.token_file = Write(name, text + "\n");
    return options;
  }
  // The certificate of a node, from the authority in this folder.
  CredentialOptions Certificates(const std::string& folder, const std::string& host = "node",
                                 int days = 30, const std::string& name = "ann") {
    EXPECT_TRUE(
        auth::MakeCertificates({folder_ / folder, name, {{host}}, std::chrono::hours(24 * days)})
            .ok());
    CredentialOptions options;
    options.tls_ca = folder_ / (folder + "/ca.crt");
    options.tls_cert = folder_ / (folder + "/" + host + ".crt");
    options.tls_key = folder_ / (folder + "/" + host + ".key");
    return options;
  }

  void Serve(const CredentialOptions& options, auth::TlsWatch::Log log = {}) {
    auto credentials = auth::LoadServerCredentials(options, std::move(log));
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    RendezvousServer::Options server;
    server.listen = host_ + ":0";
    server.machine.leases = false;
    server.log = [](std::string_view, std::string_view) {};
    server.credentials = *credentials;
    server.time_to_join = time_to_join_;
    server.max_streams_per_address = max_streams_;
    server.max_slow_calls = max_slow_calls_;
    auto started = RendezvousServer::Start(std::move(server));
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    endpoint_ = absl::StrCat(host_, ":", server_->port());
  }

  static std::shared_ptr<const ClientCredentials> Load(const CredentialOptions& options) {
    auto credentials = ClientCredentials::Load(options);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return *credentials;
  }

  // The files of a folder of Certificates(), through a link that PointTo() can change.
  CredentialOptions Current(const std::string& folder, const std::string& host) {
    Certificates(folder, host);
    PointTo(folder);
    CredentialOptions options;
    options.tls_ca = folder_ / "current/ca.crt";
    options.tls_cert = folder_ / ("current/" + host + ".crt");
    options.tls_key = folder_ / ("current/" + host + ".key");
    return options;
  }
  // Replaces all files of Current() at once.
  void PointTo(const std::string& folder) {
    ASSERT_EQ(symlink(folder.c_str(), (folder_ / "next").c_str()), 0);
    ASSERT_EQ(rename((folder_ / "next").c_str(), (folder_ / "current").c_str()), 0);
  }
  // Waits for a renewed certificate: `taken_up` is ready when it is in use.
  struct Renewal {
    std::promise<std::string> promise;
    std::future<std::string> taken_up = promise.get_future();
    auth::TlsWatch::Log Log() {
      return [this](bool, const std::string& text) { promise.set_value(text); };
    }
  };

  struct Agent {
    EventInbox inbox;
    std::unique_ptr<GrpcRendezvousClient> client;  // destroyed first: it calls the inbox
  };
  std::unique_ptr<Agent> Open(const CredentialOptions& options,
                              Duration timeout = std::chrono::seconds(20)) {
    auto agent = std::make_unique<Agent>();
    agent->client = std::make_unique<GrpcRendezvousClient>(
        GrpcRendezvousClient::Options{endpoint_, timeout, Load(options)});
    agent->client->Open(agent->inbox.Handler());
    return agent;
  }
  std::unique_ptr<Agent> Join(const CredentialOptions& options, const std::string& job = "job",
                              std::uint64_t agent_id = 1, int nodes = 1) {
    auto agent = Open(options);
    agent->client->Send(HeaderOf(job, agent_id), JoinOf(absl::StrCat("n", agent_id), nodes));
    return agent;
  }
  // Expects that an agent with these credentials is refused. Returns the reason that it gets.
  std::string Refusal(const CredentialOptions& options) {
    const auto agent = Join(options);
    const auto event = agent->inbox.Next();
    if (!event) return "";
    const auto* lost = std::get_if<RendezvousClient::Lost>(&*event);
    if (lost == nullptr) {
      ADD_FAILURE() << "a message came instead of Lost";
      return "";
    }
    EXPECT_TRUE(lost->denied || lost->closed_after_tls) << lost->reason;
    EXPECT_FALSE(lost->refused) << "that says that nobody listens";
    return lost->reason;
  }
  std::uint64_t Refused(const std::string& reason) { return server_->Refusals()[reason]; }

  std::chrono::milliseconds time_to_join_{std::chrono::seconds(20)};
  std::size_t max_streams_ = 100;
  std::size_t max_slow_calls_ = 100;
  std::string host_ = "127.0.0.1";
  TempDir folder_;
  std::string endpoint_;
  std::unique_ptr<RendezvousServer> server_;
};

TEST_F(CredentialsTest, AnAgentWithTheTokenIsInTheJob) {
  Serve(Token("server", kSecret));
  EXPECT_EQ(Join(Token("client", kSecret))->inbox.Expect<Assignment>().world_size, 1);
  EXPECT_TRUE(server_->Refusals().empty());
}

TEST_F(CredentialsTest, AnAgentWithAnotherTokenSeesThatTheRendezvousDoesNotKnowIt) {
  Serve(Token("server", kSecret));
  EXPECT_THAT(Refusal(Token("client", "fedcba9876543210")), HasSubstr("does not know this token"));
}

TEST_F(CredentialsTest, AnAgentWithoutATokenIsToldWhatIsAskedFor) {
  Serve(Token("server", kSecret));
  EXPECT_THAT(Refusal({}), HasSubstr("asks for a token (--token-file)"));
  EXPECT_EQ(Refused("no_proof"), 1u);
}

TEST_F(CredentialsTest, AnAgentWithATokenDoesNotJoinWhereNobodyIsAsked) {
  Serve({});
  EXPECT_THAT(Refusal(Token("client", kSecret)), HasSubstr("runs without credentials"));
}

TEST_F(CredentialsTest, NamesOfTokensSeparateTheJobs) {
  Serve(Token("server", "ann: 0123456789abcdef0\nbob: 0123456789abcdef1\n"));
  const auto ann = Token("ann", "ann: 0123456789abcdef0");
  const auto bob = Token("bob", "bob: 0123456789abcdef1");
  const auto first = Join(ann, "job", 1, 2);
  const auto second = Join(ann, "job", 2, 2);
  first->inbox.Expect<Assignment>();
  const auto stranger = Join(bob, "job", 3, 2);
  EXPECT_THAT(stranger->inbox.ExpectLost(), HasSubstr("belongs to somebody else"));
  EXPECT_EQ(Refused("other_owner"), 1u);
  const absl::Status reported =
      ReportGone({{endpoint_, Load(bob)}}, HeaderOf("job", 1), std::chrono::seconds(20));
  EXPECT_THAT(std::string(reported.message()), HasSubstr("belongs to somebody else"));
  EXPECT_EQ(Refused("other_owner"), 2u);
  Join(bob, "another", 1)->inbox.Expect<Assignment>();
  EXPECT_THAT(Refusal(Token("eve", "eve: 0123456789abcdef1")),
              HasSubstr("does not know this token"));
}

TEST_F(CredentialsTest, ReportGoneNeedsTheTokenToo) {
  const auto token = Token("token", kSecret);
  Serve(token);
  const auto a = Join(token, "job", 1, 2);
  const auto b = Join(token, "job", 2, 2);
  Header header_a;
  Header header_b;
  a->inbox.Expect<Assignment>(&header_a);
  b->inbox.Expect<Assignment>(&header_b);
  a->client->Send(header_a, AssignmentAck{});
  b->client->Send(header_b, AssignmentAck{});
  b->inbox.Expect<Start>();
  const Duration limit = std::chrono::seconds(20);
  EXPECT_THAT(std::string(ReportGone({{endpoint_}}, HeaderOf("job", 1), limit).message()),
              HasSubstr("asks for a token"));
  EXPECT_TRUE(b->inbox.empty());
  const auto credentials = Load(token);
  EXPECT_TRUE(ReportGone({{endpoint_, credentials}}, HeaderOf("job", 1), limit).ok());
  EXPECT_THAT(b->inbox.Expect<Stop>().reason, HasSubstr("its agent was killed"));
}

TEST_F(CredentialsTest, ASessionThatDoesNotJoinIsEnded) {
  time_to_join_ = std::chrono::milliseconds(50);
  Serve({});
  const auto joined = Join({});
  joined->inbox.Expect<Assignment>();
  const auto silent = Open({});
  EXPECT_THAT(silent->inbox.ExpectLost(), HasSubstr("no Join came in time"));
  EXPECT_EQ(Refused("no_join"), 1u);
  EXPECT_TRUE(joined->inbox.empty()) << "one that has joined may be silent";
}

TEST_F(CredentialsTest, SessionsFromOneAddressAreBounded) {
  max_streams_ = 2;
  Serve({});
  const auto a = Join({}, "a");
  const auto b = Join({}, "b");
  a->inbox.Expect<Assignment>();
  b->inbox.Expect<Assignment>();
  EXPECT_THAT(Join({}, "c")->inbox.ExpectLost(), HasSubstr("there are 2 sessions from"));
  EXPECT_EQ(Refused("too_many_streams"), 1u);
  a->client->Close();
  // The place of `a` is free as soon as the rendezvous has seen the end of its session.
  for (;;) {
    const auto c = Join({}, "c");
    const auto event = c->inbox.Next();
    ASSERT_TRUE(event.has_value());
    if (std::holds_alternative<RendezvousClient::Received>(*event)) break;
  }
}

TEST_F(CredentialsTest, CertificatesOfOneAuthorityTrustEachOther) {
  Serve(Certificates("ours", "head"));
  Join(Certificates("ours", "node"))->inbox.Expect<Assignment>();
}

TEST_F(CredentialsTest, CommonNamesSeparateTheJobs) {
  Serve(Certificates("ours", "head"));
  const auto ann = Join(Certificates("ours", "node"), "job", 1, 2);
  const auto more = Join(Certificates("ours", "node2"), "job", 2, 2);
  ann->inbox.Expect<Assignment>();
  const auto bob = Join(Certificates("ours", "node3", 30, "bob"), "job", 3, 2);
  EXPECT_THAT(bob->inbox.ExpectLost(), HasSubstr("belongs to somebody else"));
}

TEST_F(CredentialsTest, ATokenOverTls) {
  CredentialOptions server = Certificates("ours", "head");
  CredentialOptions client;
  client.tls_ca = std::exchange(server.tls_ca, "");
  server.token_file = client.token_file = Write("token", kSecret);
  Serve(server);
  Join(client)->inbox.Expect<Assignment>();
  client.token_file.clear();
  EXPECT_THAT(Refusal(client), HasSubstr("asks for a token"));
}

TEST_F(CredentialsTest, AnAgentThatTrustsAnotherAuthorityIsNotFooled) {
  Serve(Certificates("ours", "head"));
  auto options = Certificates("ours", "node");
  options.tls_ca = Certificates("theirs").tls_ca;
  EXPECT_THAT(Refusal(options), HasSubstr("not of the authority in --tls-ca"));
}

TEST_F(CredentialsTest, AnAgentOfAnotherAuthorityIsRefusedAndCounted) {
  Serve(Certificates("ours", "head"));
  auto options = Certificates("theirs", "node");
  options.tls_ca = folder_ / "ours/ca.crt";
  EXPECT_THAT(Refusal(options),
              HasSubstr("the certificate of this side (--tls-cert) is missing, has expired"));
  EXPECT_GE(Refused("tls_handshake"), 1u);
}

TEST_F(CredentialsTest, AnAgentWithoutACertificateIsRefused) {
  Serve(Certificates("ours", "head"));
  CredentialOptions options;
  options.tls_ca = folder_ / "ours/ca.crt";
  EXPECT_THAT(Refusal(options), HasSubstr("the certificate of this side (--tls-cert) is missing"));
}

TEST_F(CredentialsTest, AnAgentWithoutTlsIsToldThatItMayBeAskedFor) {
  Serve(Certificates("ours", "head"));
  const auto agent = Open({});
  EXPECT_THAT(agent->inbox.ExpectLost(), HasSubstr("does it ask for TLS (--tls-ca)?"));
}

TEST_F(CredentialsTest, AnAgentWithTlsIsRefusedWhereThereIsNone) {
  Serve({});
  EXPECT_THAT(Refusal(Certificates("ours", "head")), HasSubstr("does not speak TLS"));
}

// The socket of munged takes connections, but nobody answers. Seen red when every call waited.
TEST_F(CredentialsTest, AMungedThatHangsFillsNoQueue) {
  CredentialOptions options;
  options.munge = true;
  options.munge_socket = folder_ / "munge.socket";
  const int hung = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  options.munge_socket.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(hung, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(hung, 16), 0);
  max_slow_calls_ = 5;
  Serve(options);
  std::vector<std::unique_ptr<Agent>> agents;
  for (int i = 0; i < 7; ++i) agents.push_back(Open(options));
  const auto deadline = std::chrono::steady_clock::now() + kTestDeadline;
  while (Refused("too_many_waiting") < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Refused("too_many_waiting"), 2u);
  // munged no longer listens: the waiting calls get the error that it cannot be reached.
  close(hung);
  int refused = 0;
  for (const auto& agent : agents) {
    const std::string why = agent->inbox.ExpectLost();
    if (why.find("too many calls wait for an answer: 5, and 5 of them from ipv4:127.0.0.1; munged "
                 "on the host of the rendezvous is slow or does not answer") != why.npos) {
      ++refused;
    }
  }
  EXPECT_EQ(refused, 2);
}

// Seen red with a server that is given its certificate once.
TEST_F(CredentialsTest, ARendezvousShowsARenewedCertificateToNewConnectionsWithoutARestart) {
  Renewal renewal;
  Serve(Current("first", "head"), renewal.Log());
  const auto before = Join(Certificates("first", "node"), "before", 1, 2);
  Certificates("second", "head");
  PointTo("second");
  EXPECT_THAT(renewal.taken_up.get(), HasSubstr("new connections use them"));
  Join(Certificates("second", "node"))->inbox.Expect<Assignment>();
  EXPECT_THAT(Refusal(Certificates("first", "node2")), HasSubstr("not of the authority"));
  EXPECT_TRUE(before->inbox.empty()) << "the session from before lives on";
}

TEST_F(CredentialsTest, AnAgentShowsARenewedCertificateWhenItConnectsAgain) {
  Renewal renewal;
  const auto credentials = ClientCredentials::Load(Current("first", "node"), renewal.Log());
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  Serve(Certificates("second", "head"));
  const auto join = [&] {
    auto agent = std::make_unique<Agent>();
    agent->client = std::make_unique<GrpcRendezvousClient>(
        GrpcRendezvousClient::Options{endpoint_, std::chrono::seconds(20), *credentials});
    agent->client->Open(agent->inbox.Handler());
    agent->client->Send(HeaderOf("job", 1), JoinOf("n1", 1));
    return agent;
  };
  EXPECT_THAT(join()->inbox.ExpectLost(), HasSubstr("not of the authority"));
  Certificates("second", "node");
  PointTo("second");
  renewal.taken_up.get();
  join()->inbox.Expect<Assignment>();
}

TEST_F(CredentialsTest, ACertificateForAnotherHostIsNotTrusted) {
  host_ = "127.0.0.2";  // our certificates are for other hosts
  Serve(Certificates("ours", "head"));
  EXPECT_THAT(Refusal(Certificates("ours", "node")), HasSubstr("is for another host"));
}

TEST_F(CredentialsTest, OneWithTheHostsAddressIs) {
  host_ = "127.0.0.2";
  Serve(Certificates("ours", "127.0.0.2"));
  Join(Certificates("ours", "node"))->inbox.Expect<Assignment>();
}

}  // namespace credentials_test
}  // namespace ddprun
