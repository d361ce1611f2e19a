// Authenticator and ClientCredentials without a connection between them.
#include "rendezvous/auth/authenticator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "absl/strings/escaping.h"
#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/auth/tls/peer_certificate.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace ddprun::auth {
namespace authenticator_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecret[] = "0123456789abcdef";
constexpr char kPeer[] = "ipv4:10.0.0.7:4";

class AuthenticatorTest : public testing::Test {
 protected:
  AuthenticatorTest() {
    Authenticator::Options options;
    options.tokens = {{"ann", kSecret}, {"bob", "another secret 16"}};
    options.clock = [this] { return now_; };
    authenticator_ = std::make_unique<Authenticator>(std::move(options));
  }

  std::shared_ptr<const ClientCredentials> Client(const std::string& line) {
    const std::string path = folder_ / "token";
    std::ofstream(path) << line << "\n";
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    CredentialOptions options;
    options.token_file = path;
    auto client = ClientCredentials::Load(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *client;
  }
  // The proof that a client with this token sends.
  std::string Proof(const std::string& line, const std::string& method = "Session") {
    const auto client = Client(line);
    const v1::HandshakeRequest request = client->NewHandshake();
    const auto reply = authenticator_->Answer(request, kPeer);
    EXPECT_TRUE(reply.ok()) << reply.status();
    const auto proof = client->Prove(request, *reply, method, "");
    EXPECT_TRUE(proof.ok()) << proof.status();
    return *proof;
  }
  // The counter of the refusal; "": the call is accepted, and `principal_` is set.
  std::string Check(std::optional<std::string_view> proof, std::string_view method = "Session",
                    std::string_view peer = kPeer) {
    principal_.clear();
    const auto refusal = authenticator_->Check({method, peer, proof, ""}, &principal_);
    EXPECT_EQ(refusal.counter == nullptr, !principal_.empty());
    EXPECT_EQ(refusal.counter == nullptr, refusal.status.ok());
    if (refusal.counter == nullptr) return "";
    EXPECT_TRUE(absl::IsUnauthenticated(refusal.status)) << refusal.status;
    return refusal.counter;
  }

  Challenges::TimePoint now_{std::chrono::hours(1)};
  TempDir folder_;
  std::unique_ptr<Authenticator> authenticator_;
  Principal principal_;
};

TEST_F(AuthenticatorTest, WhoKnowsATokenIsKnownByItsName) {
  EXPECT_EQ(Check(Proof("ann:0123456789abcdef")), "");
  EXPECT_EQ(principal_, "token:ann");
  EXPECT_EQ(Check(Proof("bob:another secret 16")), "");
  EXPECT_EQ(principal_, "token:bob");
}

TEST_F(AuthenticatorTest, AProofIsGoodOnce) {
  const std::string proof = Proof("ann:0123456789abcdef");
  EXPECT_EQ(Check(proof), "");
  EXPECT_EQ(Check(proof), "stale_proof");
}

// Seen red with a transcript without the method, and with a binding without the peer.
TEST_F(AuthenticatorTest, AProofIsForOneMethodOneConnectionAndTenSeconds) {
  const std::string proof = Proof("ann:0123456789abcdef");
  EXPECT_EQ(Check(proof, "ReportGone"), "wrong_proof");
  EXPECT_EQ(Check(proof, "Session", "ipv4:10.0.0.8:4"), "stale_proof");
  now_ += Challenges::kLifetime;
  EXPECT_EQ(Check(proof), "stale_proof");
  now_ -= std::chrono::milliseconds(1);
  EXPECT_EQ(Check(proof), "");
}

TEST_F(AuthenticatorTest, NoneOrNonsenseIsRefused) {
  EXPECT_EQ(Check(std::nullopt), "no_proof");
  EXPECT_EQ(Check("\xff\xff\xff"), "malformed");
  EXPECT_EQ(Check(std::string(5000, 'x')), "malformed");
  EXPECT_EQ(Check(""), "stale_proof");
}

TEST_F(AuthenticatorTest, EveryChangeOfAProofIsRefused) {
  const std::string proof = Proof("ann:0123456789abcdef");
  for (std::size_t i = 0; i < proof.size(); ++i) {
    std::string changed = proof;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_NE(Check(changed), "") << i;
  }
  EXPECT_EQ(Check(proof), "");
}

TEST_F(AuthenticatorTest, TheServersProofCannotBeSentBackAsTheClients) {
  v1::HandshakeRequest request;
  request.set_scheme(v1::AUTH_SCHEME_TOKEN);
  request.set_name("ann");
  request.set_client_nonce(RandomBytes(kNonceBytes));
  const auto reply = authenticator_->Answer(request, kPeer);
  ASSERT_TRUE(reply.ok());
  v1::AuthProof proof;
  proof.set_scheme(request.scheme());
  proof.set_name("ann");
  proof.set_client_nonce(request.client_nonce());
  proof.set_server_nonce(reply->server_nonce());
  proof.set_client_proof(reply->server_proof());
  EXPECT_EQ(Check(proof.SerializeAsString()), "wrong_proof");
  EXPECT_EQ(Check(proof.SerializeAsString(), "Handshake"), "wrong_proof");
}

TEST_F(AuthenticatorTest, AServerThatDoesNotKnowTheTokenIsSentNothing) {
  for (const std::string line : {"ann:not the right one", "eve:0123456789abcdef"}) {
    const auto client = Client(line);
    const v1::HandshakeRequest request = client->NewHandshake();
    const auto reply = authenticator_->Answer(request, kPeer);
    ASSERT_TRUE(reply.ok()) << "a name that is not known looks like a wrong token";
    EXPECT_EQ(reply->server_proof().size(), 32u);
    const auto proof = client->Prove(request, *reply, "Session", "");
    EXPECT_TRUE(absl::IsPermissionDenied(proof.status())) << proof.status();
  }
}

TEST_F(AuthenticatorTest, TheTokenDoesNotTravel) {
  const auto client = Client("ann:0123456789abcdef");
  const v1::HandshakeRequest request = client->NewHandshake();
  const auto reply = authenticator_->Answer(request, kPeer);
  const std::string sent = request.SerializeAsString() + reply->SerializeAsString() +
                           *client->Prove(request, *reply, "Session", "");
  EXPECT_THAT(sent, Not(HasSubstr("0123456789abcdef")));
}

TEST_F(AuthenticatorTest, AHandshakeOutOfBoundsIsRefused) {
  v1::HandshakeRequest request;
  EXPECT_THAT(std::string(authenticator_->Answer(request, kPeer).status().message()),
              HasSubstr("asks for a token"));
  request.set_scheme(v1::AUTH_SCHEME_MUNGE);
  EXPECT_TRUE(absl::IsUnauthenticated(authenticator_->Answer(request, kPeer).status()));
  request.set_scheme(v1::AUTH_SCHEME_TOKEN);
  request.set_client_nonce("short");
  EXPECT_TRUE(absl::IsInvalidArgument(authenticator_->Answer(request, kPeer).status()));
  request.set_client_nonce(RandomBytes(kNonceBytes));
  request.set_name(std::string(65, 'n'));
  EXPECT_TRUE(absl::IsInvalidArgument(authenticator_->Answer(request, kPeer).status()));
  request.set_name("");
  EXPECT_TRUE(authenticator_->Answer(request, kPeer).ok());
}

// The server's certificate, as each side sees it.
class BindingTest : public testing::Test {
 protected:
  BindingTest() {
    const std::string path = folder_ / "token";
    std::ofstream(path) << kSecret << "\n";
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    CredentialOptions options;
    options.token_file = path;
    client_ = ClientCredentials::Load(options).value();
    Authenticator::Options server;
    server.tokens = {{"token", kSecret}};
    without_tls_ = std::make_unique<Authenticator>(server);
    server.identity = identity_;
    authenticator_ = std::make_unique<Authenticator>(server);
  }
  // A client that has seen `certificate` calls. "": the call is accepted. Otherwise the counter of
  // the refusal, or the client's error if it does not trust the server.
  std::string Try(Authenticator& server, const std::string& certificate) {
    const v1::HandshakeRequest request = client_->NewHandshake();
    const auto reply = server.Answer(request, kPeer);
    EXPECT_TRUE(reply.ok()) << reply.status();
    const auto proof = client_->Prove(request, *reply, "Session", certificate);
    if (!proof.ok()) {
      EXPECT_TRUE(absl::IsPermissionDenied(proof.status())) << proof.status();
      return std::string(proof.status().message());
    }
    Principal principal;
    const auto refusal = server.Check({"Session", kPeer, *proof, ""}, &principal);
    return refusal.counter == nullptr ? "" : refusal.counter;
  }

  TempDir folder_;
  std::shared_ptr<const ClientCredentials> client_;
  const std::shared_ptr<TlsIdentity> identity_ =
      std::make_shared<TlsIdentity>(MakeSelfSigned("server"));
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<Authenticator> without_tls_;
};

TEST_F(BindingTest, BothMustHaveSeenTheSameCertificate) {
  const std::string ours = identity_->shown().front();
  EXPECT_EQ(Try(*authenticator_, ours), "");
  EXPECT_THAT(Try(*authenticator_, std::string(32, 'x')), HasSubstr("relays the messages"));
  EXPECT_THAT(Try(*authenticator_, ""), HasSubstr("relays the messages"));
  EXPECT_EQ(Try(*without_tls_, ""), "");
  EXPECT_THAT(Try(*without_tls_, ours), HasSubstr("relays the messages"));
}

TEST_F(BindingTest, AListThatWasChangedOnTheWayIsNotTheOneThatWasProven) {
  const v1::HandshakeRequest request = client_->NewHandshake();
  auto reply = *authenticator_->Answer(request, kPeer);
  const std::string theirs(32, 'x');
  reply.add_server_certificates(theirs);
  EXPECT_THAT(std::string(client_->Prove(request, reply, "Session", theirs).status().message()),
              HasSubstr("does not know this token"));
  reply.clear_server_certificates();
  reply.add_server_certificates("short");
  EXPECT_THAT(std::string(client_->Prove(request, reply, "Session", theirs).status().message()),
              HasSubstr("no challenge that this version understands"));
}

TEST_F(BindingTest, AConnectionLivesOnWithTheCertificateThatItWasMadeWith) {
  const std::string first = identity_->shown().front();
  for (int renewed = 0; renewed < 3; ++renewed) {
    identity_->Replace(MakeSelfSigned("server"));
    EXPECT_EQ(Try(*authenticator_, identity_->shown().front()), "");
    EXPECT_EQ(Try(*authenticator_, first), "");
  }
  identity_->Replace(MakeSelfSigned("server"));
  EXPECT_NE(Try(*authenticator_, first), "") << "four are remembered";
}

TEST(CertificateSha256Test, IsThatOfTheDer) {
  // openssl x509 -outform DER | sha256sum
  const TlsPem pem = MakeSelfSigned("server");
  TempDir folder;
  std::ofstream(folder / "pem") << pem.cert;
  Program openssl({"sh", "-c",
                   "openssl x509 -outform DER -in " + (folder / "pem") +
                       " | sha256sum | cut -c1-64 | tr -d '\n'"});
  EXPECT_EQ(openssl.ExitCode(), 0) << openssl.err();
  EXPECT_EQ(absl::BytesToHexString(CertificateSha256(pem.cert)), openssl.out());
  EXPECT_EQ(CertificateSha256("no certificate"), "");
}

TEST(AuthenticatorOfCertificatesTest, TheCommonNameSaysWhoCalls) {
  Authenticator::Options options;
  options.certificates = true;
  Authenticator authenticator(options);
  Principal principal;
  EXPECT_EQ(authenticator.Check({"Session", kPeer, std::nullopt, "ann"}, &principal).counter,
            nullptr);
  EXPECT_EQ(principal, "cert:ann");
  EXPECT_STREQ(authenticator.Check({"Session", kPeer, std::nullopt, ""}, &principal).counter,
               "no_proof");
}

TEST(PrincipalTest, OnlyRootOfMungeMayActForOthers) {
  EXPECT_TRUE(MayAct("token:ann", "token:ann"));
  EXPECT_FALSE(MayAct("token:ann", "token:bob"));
  EXPECT_FALSE(MayAct("", "token:bob"));
  EXPECT_FALSE(MayAct("token:bob", ""));
  EXPECT_TRUE(MayAct("", ""));
  EXPECT_TRUE(MayAct("uid:0", "uid:1000"));
  EXPECT_FALSE(MayAct("uid:1000", "uid:0"));
  EXPECT_FALSE(MayAct("cert:uid:0", "uid:1000"));
}

TEST(ClientCredentialsTest, OptionsThatDoNotFitTogetherAreRefused) {
  const auto why = [](const CredentialOptions& options) {
    return std::string(ClientCredentials::Load(options).status().message());
  };
  EXPECT_THAT(why({"/t", "", "", "", true, ""}), HasSubstr("an agent shows one of them"));
  EXPECT_THAT(why({"", "", "/c", "/k", false, ""}), HasSubstr("also need --tls-ca"));
  EXPECT_THAT(why({"", "/a", "/c", "", false, ""}), HasSubstr("belong together"));
}

}  // namespace authenticator_test
}  // namespace ddprun::auth
