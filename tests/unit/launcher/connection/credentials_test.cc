// How a process finds the token of a daemon on loopback. Client and server need no connection here.
#include "launcher/connection/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>

#include "launcher/connection/state_home.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/auth/server_credentials.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace credentials_test {

using testing::AllOf;
using testing::HasSubstr;
using Client = std::shared_ptr<const auth::ClientCredentials>;

constexpr char kEndpoint[] = "localhost:29400";
constexpr char kPeer[] = "ipv4:127.0.0.1:4";

class OwnTokenTest : public testing::Test {
 protected:
  OwnTokenTest() { setenv("DDPRUN_STATE_HOME", home_.path().c_str(), 1); }
  ~OwnTokenTest() override { unsetenv("DDPRUN_STATE_HOME"); }

  static Client Load(const std::string& endpoint = kEndpoint, const CredentialsConfig& config = {},
                     bool insecure = false) {
    auto credentials = LoadCredentials(config, endpoint, insecure);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return *credentials;
  }
  // Takes the folder of the endpoint and writes the token, like a daemon.
  static EndpointFolder Daemon(const std::string& token) {
    auto folder = EndpointFolder::Take("127.0.0.1", 29400);
    EXPECT_TRUE(folder.ok()) << folder.status();
    EXPECT_TRUE(folder->WriteToken(token).ok());
    return *std::move(folder);
  }
  // Does the handshake with a server that knows `token`. Returns the error, or "" if each side
  // accepts the other.
  static std::string Meet(const Client& client, const std::string& token) {
    auth::Token known;
    known.secret = token;
    const auto server = auth::ServerCredentialsOf(std::move(known));
    const v1::HandshakeRequest request = client->NewHandshake();
    const auto reply = server->authenticator->Answer(request, kPeer);
    if (!reply.ok()) return std::string(reply.status().message());
    const auto proof = client->Prove(request, *reply, "Session", /*certificate=*/"");
    if (!proof.ok()) return std::string(proof.status().message());
    auth::Principal principal;
    const auto refusal = server->authenticator->Check({"Session", kPeer, *proof, ""}, &principal);
    return std::string(refusal.status.message());
  }

  const TempDir home_;
  const std::string path_ = home_ / "localhost:29400/token";
};

TEST_F(OwnTokenTest, OfADaemonOnLoopbackIsFoundByEndpoint) {
  const EndpointFolder daemon = Daemon("0123456789abcdef");
  for (const std::string endpoint : {"localhost:29400", "127.0.0.1:29400", "[::1]:29400"}) {
    const Client client = Load(endpoint);
    EXPECT_EQ(Meet(client, "0123456789abcdef"), "") << endpoint;
    EXPECT_FALSE(client->Outdated());
  }
  EXPECT_THAT(Meet(Load(), "another secret 16"), HasSubstr("does not know the token in " + path_));
}

TEST_F(OwnTokenTest, OfADaemonThatIsStartedAgainIsReadAgain) {
  const Client client = Load();
  client->NewHandshake();
  EXPECT_FALSE(client->Outdated()) << "no daemon yet";
  EndpointFolder daemon = Daemon("0123456789abcdef");
  EXPECT_TRUE(client->Outdated());
  EXPECT_EQ(Meet(client, "0123456789abcdef"), "");
  EXPECT_FALSE(client->Outdated());
  EXPECT_TRUE(daemon.WriteToken("the second secret").ok() && client->Outdated());
  EXPECT_EQ(Meet(client, "the second secret"), "");
  daemon.Remove();
  EXPECT_FALSE(client->Outdated()) << "who says no then is a stranger";
}

// Another process may listen where the daemon is missing. The client must not send it anything.
TEST_F(OwnTokenTest, WithoutADaemonNobodyIsTrusted) {
  const Client client = Load();
  ASSERT_TRUE(client->handshakes());
  EXPECT_THAT(Meet(client, ""), AllOf(HasSubstr("no rendezvous of this user listens there"),
                                      HasSubstr(path_), HasSubstr("--insecure")));
}

TEST_F(OwnTokenTest, ThatOthersMayReadIsNone) {
  const EndpointFolder daemon = Daemon("0123456789abcdef");
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  EXPECT_THAT(Meet(Load(), "0123456789abcdef"),
              HasSubstr("no rendezvous of this user listens there"));
}

TEST_F(OwnTokenTest, WhatTheUserGivesWins) {
  const EndpointFolder daemon = Daemon("0123456789abcdef");
  EXPECT_FALSE(Load(kEndpoint, {}, /*insecure=*/true)->handshakes());
  for (const std::string endpoint : {"head:29400", "unix:/s", ""}) {
    EXPECT_FALSE(Load(endpoint)->handshakes()) << endpoint;
  }
  CredentialsConfig config;
  config.token_file = home_ / "mine";
  std::ofstream(config.token_file) << "fedcba9876543210\n";
  ASSERT_EQ(chmod(config.token_file.c_str(), 0600), 0);
  EXPECT_EQ(Meet(Load(kEndpoint, config), "fedcba9876543210"), "");
}

TEST_F(OwnTokenTest, NeedsAStateHomeOnLoopbackOnly) {
  ASSERT_EQ(chmod(home_.path().c_str(), 0755), 0);
  const absl::Status refused = LoadCredentials({}, kEndpoint, false).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_TRUE(LoadCredentials({}, "head:29400", false).ok());
  EXPECT_TRUE(LoadCredentials({}, kEndpoint, true).ok());
}

}  // namespace credentials_test
}  // namespace ddprun
