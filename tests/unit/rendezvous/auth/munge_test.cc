// Tests MUNGE with real munged processes.
#include "rendezvous/auth/munge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "rendezvous/auth/authenticator.h"
#include "rendezvous/auth/client_credentials.h"
#include "tests/support/munged.h"
#include "tests/support/temp_dir.h"

namespace ddprun::auth {
namespace munge_test {

using ::testing::HasSubstr;

constexpr char kPeer[] = "ipv4:10.0.0.7:4";

class MungeTest : public testing::Test {
 protected:
  std::shared_ptr<const Munge> Load(const std::string& socket) {
    auto munge = Munge::Load(socket);
    EXPECT_TRUE(munge.ok()) << munge.status();
    return *munge;
  }

  TempDir folder_;
  Munged munged_{folder_ / "munge"};
};

TEST_F(MungeTest, TellsWhoMadeACredentialOnce) {
  const auto munge = Load(munged_.socket());
  const auto credential = munge->Encode(std::string("to\0ken", 6), geteuid());
  ASSERT_TRUE(credential.ok()) << credential.status();
  const auto decoded = munge->Decode(*credential);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->payload, std::string("to\0ken", 6));
  EXPECT_EQ(decoded->uid, geteuid());
  EXPECT_TRUE(absl::IsUnauthenticated(munge->Decode(*credential).status())) << "a replay";
}

TEST_F(MungeTest, ACredentialOfAnotherRealmOrNoneIsRefused) {
  const Munged theirs(folder_ / "theirs", std::string(64, 'x'));
  const auto munge = Load(munged_.socket());
  const auto credential = Load(theirs.socket())->Encode("hello", geteuid());
  ASSERT_TRUE(credential.ok()) << credential.status();
  EXPECT_TRUE(absl::IsUnauthenticated(munge->Decode(*credential).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(munge->Decode("MUNGE:nonsense:").status()));
}

// Seen red with an Encode that restricts nothing.
TEST_F(MungeTest, ACredentialIsForOneUserAlone) {
  const auto munge = Load(munged_.socket());
  const auto credential = munge->Encode("hello", geteuid() + 1);
  ASSERT_TRUE(credential.ok()) << credential.status();
  const auto decoded = munge->Decode(*credential);
  EXPECT_TRUE(absl::IsUnauthenticated(decoded.status())) << decoded.status();
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("nauthorized"));
}

TEST_F(MungeTest, TheRendezvousAnswersTheUserThatTheCallerNames) {
  Authenticator::Options options;
  options.munge = Load(munged_.socket());
  const Authenticator authenticator(options);
  v1::HandshakeRequest request;
  request.set_scheme(v1::AUTH_SCHEME_MUNGE);
  request.set_client_nonce(std::string(32, 'n'));
  EXPECT_TRUE(absl::IsInvalidArgument(authenticator.Answer(request, kPeer).status()));
  request.set_name(std::to_string(geteuid() + 1));
  const auto others = authenticator.Answer(request, kPeer);
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_FALSE(options.munge->Decode(others->server_proof()).ok());
  request.set_name(std::to_string(geteuid()));
  const auto ours = authenticator.Answer(request, kPeer);
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_TRUE(options.munge->Decode(ours->server_proof()).ok());
}

TEST_F(MungeTest, TheCallerAnswersTheUserThatTheRendezvousHasProven) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  ASSERT_EQ(chmod(folder_.path().c_str(), 0711), 0);
  CredentialOptions options;
  options.munge = true;
  options.munge_socket = munged_.socket();
  const auto client = ClientCredentials::Load(options);
  ASSERT_TRUE(client.ok()) << client.status();
  Authenticator::Options server;
  server.munge = Load(munged_.socket());
  const auto request = (*client)->NewHandshake();
  const auto reply = Authenticator(server).Answer(request, kPeer);
  ASSERT_TRUE(reply.ok()) << reply.status();
  v1::AuthProof proof;
  ASSERT_TRUE(proof.ParseFromString((*client)->Prove(request, *reply, "Session", "").value()));
  std::ofstream(folder_ / "credential") << proof.client_proof();
  ASSERT_EQ(chmod((folder_ / "credential").c_str(), 0644), 0);
  const std::vector<std::string> unmunge = {"unmunge", "--socket", munged_.socket(), "--input",
                                            folder_ / "credential"};
  std::vector<std::string> as_nobody = {"/usr/bin/setpriv", "--reuid", "65534", "--clear-groups"};
  as_nobody.insert(as_nobody.end(), unmunge.begin(), unmunge.end());
  Program stranger(as_nobody);
  EXPECT_NE(stranger.ExitCode(), 0);
  EXPECT_THAT(stranger.out() + stranger.err(), HasSubstr("nauthorized"));
  Program root(unmunge);
  EXPECT_EQ(root.ExitCode(), 0) << root.out() << root.err();
}

// Waiting does not help: neither side tries again.
TEST_F(MungeTest, AMungedThatIsAwayIsNamedWithItsHostAndSocket) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string path = folder_ / "none";
  const auto munge = Load(path);
  for (const absl::Status& status :
       {munge->Encode("hello", geteuid()).status(), munge->Decode("MUNGE:AAAA:").status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::string("munged does not run on ") + host +
                          ", or its socket is not " + path + " (No such file or directory)"));
  }
  Authenticator::Options options;
  options.munge = munge;
  const Authenticator authenticator(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(authenticator.CheckHost()));
  v1::HandshakeRequest request;
  request.set_scheme(v1::AUTH_SCHEME_MUNGE);
  request.set_client_nonce(std::string(32, 'n'));
  request.set_name("0");
  EXPECT_TRUE(absl::IsFailedPrecondition(authenticator.Answer(request, kPeer).status()));
}

TEST_F(MungeTest, BothSidesShowWhoTheyAre) {
  Authenticator::Options options;
  options.munge = Load(munged_.socket());
  options.own_uid = geteuid();
  Authenticator authenticator(options);
  CredentialOptions client_options;
  client_options.munge = true;
  client_options.munge_socket = munged_.socket();
  const auto client = ClientCredentials::Load(client_options);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto request = (*client)->NewHandshake();
  const auto reply = authenticator.Answer(request, kPeer);
  ASSERT_TRUE(reply.ok()) << reply.status();
  const auto proof = (*client)->Prove(request, *reply, "Session", "");
  ASSERT_TRUE(proof.ok()) << proof.status();
  Principal principal;
  const auto refusal = authenticator.Check({"Session", kPeer, *proof, ""}, &principal);
  EXPECT_EQ(refusal.counter, nullptr) << refusal.status;
  EXPECT_EQ(principal, "uid:" + std::to_string(geteuid()));
  EXPECT_STREQ(authenticator.Check({"Session", kPeer, *proof, ""}, &principal).counter,
               "wrong_proof");
}

TEST_F(MungeTest, ACredentialMadeForSomethingElseIsRefused) {
  Authenticator::Options options;
  options.munge = Load(munged_.socket());
  Authenticator authenticator(options);
  v1::HandshakeRequest request;
  request.set_scheme(v1::AUTH_SCHEME_MUNGE);
  request.set_name(std::to_string(geteuid()));
  request.set_client_nonce(std::string(32, 'n'));
  const auto reply = authenticator.Answer(request, kPeer);
  ASSERT_TRUE(reply.ok()) << reply.status();
  v1::AuthProof proof;
  proof.set_scheme(request.scheme());
  proof.set_name(request.name());
  proof.set_client_nonce(request.client_nonce());
  proof.set_server_nonce(reply->server_nonce());
  proof.set_client_proof(*options.munge->Encode("what Slurm wanted", geteuid()));
  Principal principal;
  const auto refusal =
      authenticator.Check({"Session", kPeer, proof.SerializeAsString(), ""}, &principal);
  EXPECT_THAT(std::string(refusal.status.message()), HasSubstr("made for something else"));
}

}  // namespace munge_test
}  // namespace ddprun::auth
