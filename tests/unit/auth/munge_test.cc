// With real munged processes.
#include "rendezvous/auth/munge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  const auto credential = munge->Encode(std::string("to\0ken", 6));
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
  const auto credential = Load(theirs.socket())->Encode("hello");
  ASSERT_TRUE(credential.ok()) << credential.status();
  EXPECT_TRUE(absl::IsUnauthenticated(munge->Decode(*credential).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(munge->Decode("MUNGE:nonsense:").status()));
}

TEST_F(MungeTest, AMungedThatIsAwayIsUnavailable) {
  const auto munge = Load(folder_ / "none");
  EXPECT_TRUE(absl::IsUnavailable(munge->Encode("hello").status()));
  EXPECT_TRUE(absl::IsUnavailable(munge->Decode("MUNGE:AAAA:").status()));
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
  const auto proof = (*client)->Prove(request, *reply, "Session");
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
  request.set_client_nonce(std::string(32, 'n'));
  const auto reply = authenticator.Answer(request, kPeer);
  ASSERT_TRUE(reply.ok()) << reply.status();
  v1::AuthProof proof;
  proof.set_scheme(request.scheme());
  proof.set_client_nonce(request.client_nonce());
  proof.set_server_nonce(reply->server_nonce());
  proof.set_client_proof(*options.munge->Encode("what Slurm wanted"));
  Principal principal;
  const auto refusal =
      authenticator.Check({"Session", kPeer, proof.SerializeAsString(), ""}, &principal);
  EXPECT_THAT(std::string(refusal.status.message()), HasSubstr("made for something else"));
}

}  // namespace munge_test
}  // namespace ddprun::auth
