#include "rendezvous/etcd/etcd_client.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/etcd/etcd_error.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/rendezvous/etcd/fake_etcd.h"

namespace ddprun::etcd {
namespace etcd_client_test {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::chrono::milliseconds kLimit{60000};  // reached only where something hangs
constexpr char kNobody[] = "127.0.0.1:1";           // nobody listens on this port

std::unique_ptr<Client> ClientOf(Options options) {
  auto client = Client::Create(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

TEST(EtcdClientTest, WritesWhereTheGuardsHoldAndReadsInBothCases) {
  FakeEtcd etcd;
  const auto client = ClientOf({{etcd.endpoint()}, "", "", "", "", ""});
  const auto made = client->Transact({{"/a", 0}}, {{"/a", "1"}}, {"/a", "/none"}, kLimit);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->guarded);
  EXPECT_EQ(made->cluster, FakeEtcd::kCluster);
  ASSERT_THAT(made->found, SizeIs(1));
  EXPECT_EQ(made->found[0].value, "1");
  EXPECT_EQ(made->found[0].mod_revision, made->revision);

  const auto refused = client->Transact({{"/a", 0}}, {{"/a", "2"}}, {"/a"}, kLimit);
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_FALSE(refused->guarded);
  EXPECT_EQ(refused->found[0].value, "1");

  const auto erased =
      client->Transact({{"/a", made->revision}}, {{"/a", std::nullopt}}, {"/a"}, kLimit);
  ASSERT_TRUE(erased.ok()) << erased.status();
  EXPECT_TRUE(erased->guarded);
  EXPECT_THAT(erased->found, SizeIs(0));
}

TEST(EtcdClientTest, ListsPageByPage) {
  FakeEtcd etcd;
  for (int i = 0; i < 150; ++i) etcd.Put(absl::StrCat("/a/", i), "v");
  etcd.Put("/a0", "not under /a/");
  const auto client = ClientOf({{etcd.endpoint()}, "", "", "", "", ""});
  const auto all = client->List("/a/", false, kLimit);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->found, SizeIs(150));
  EXPECT_EQ(all->found[0].value, "v");
  EXPECT_EQ(client->List("/a/", true, kLimit)->found[0].value, "");
  EXPECT_EQ(etcd.reads(), 6);
}

TEST(EtcdClientTest, AMemberThatIsNotThereIsLeftForTheNext) {
  FakeEtcd etcd;
  const auto client = ClientOf({{kNobody, etcd.endpoint()}, "", "", "", "", ""});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(client->Transact({}, {{"/a", "1"}}, {}, kLimit).ok());
  }
}

TEST(EtcdClientTest, WithNobodyThereItCertainlyHadNoEffect) {
  const auto client = ClientOf({{kNobody}, "", "", "", "", ""});
  const auto answer = client->Transact({}, {{"/a", "1"}}, {}, kLimit);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("connection refused"));
}

TEST(EtcdClientTest, AWriteIsMadeElsewhereOnlyIfItCertainlyHadNoEffect) {
  FakeEtcd first;
  FakeEtcd second;
  const auto client = ClientOf({{first.endpoint(), second.endpoint()}, "", "", "", "", ""});
  first.Meet({false, FakeEtcd::NoLeader()});
  EXPECT_TRUE(client->Transact({}, {{"/a", "1"}}, {}, kLimit).ok());
  EXPECT_EQ(second.Get("/a"), "1");

  second.Meet({true, FakeEtcd::TimedOut()});
  const auto lost = client->Transact({}, {{"/b", "1"}}, {}, kLimit);
  EXPECT_EQ(lost.status().code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(first.Get("/b"), std::nullopt);
  EXPECT_TRUE(client->Transact({}, {{"/c", "1"}}, {}, kLimit).ok());
  EXPECT_EQ(first.Get("/c"), "1") << "the member that gave no answer was asked first again";
}

TEST(EtcdClientTest, AReadIsMadeElsewhereWhateverBecameOfIt) {
  FakeEtcd first;
  FakeEtcd second;
  second.Put("/a", "1");
  const auto client = ClientOf({{first.endpoint(), second.endpoint()}, "", "", "", "", ""});
  first.RefuseReads(FakeEtcd::TimedOut());
  const auto answer = client->Transact({}, {}, {"/a"}, kLimit);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->found, SizeIs(1));
}

TEST(EtcdClientTest, JudgesOnlyByWhatLeavesNoDoubt) {
  using Code = grpc::StatusCode;
  const auto code = [](Code grpc_code, const std::string& words) {
    return ErrorOf("h:2379", grpc::Status(grpc_code, words)).code();
  };
  EXPECT_EQ(code(Code::UNAVAILABLE, "etcdserver: no leader"), absl::StatusCode::kAborted);
  EXPECT_EQ(code(Code::RESOURCE_EXHAUSTED, "etcdserver: too many requests"),
            absl::StatusCode::kAborted);
  for (const char* const words :
       {"etcdserver: request timed out",
        "etcdserver: request timed out, possibly due to previous leader failure",
        "etcdserver: leader changed", "etcdserver: server stopped", "Socket closed"}) {
    EXPECT_EQ(code(Code::UNAVAILABLE, words), absl::StatusCode::kUnknown) << words;
  }
  EXPECT_EQ(code(Code::DEADLINE_EXCEEDED, "Deadline Exceeded"), absl::StatusCode::kUnknown);
  EXPECT_EQ(code(Code::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"),
            absl::StatusCode::kUnknown);
  EXPECT_EQ(code(Code::INVALID_ARGUMENT, "etcdserver: request is too large"),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Code::PERMISSION_DENIED, "etcdserver: permission denied"),
            absl::StatusCode::kPermissionDenied);
}

TEST(EtcdClientTest, SaysWhyAConnectionWasNotMade) {
  const auto why = [](const std::string& message, OurSide side) {
    return NotConnected("h:2379", message, side);
  };
  EXPECT_EQ(why("failed to connect: Connection refused", OurSide::kTls),
            absl::AbortedError("h:2379: connection refused"));
  for (const char* const untrusted :
       {"SSL_ERROR_SSL: error:1000007d:SSL routines::certificate verify failed",
        "SSL_ERROR_SSL: error:0A00010B:SSL routines::wrong version number",
        "Hostname Verification Check failed."}) {
    EXPECT_TRUE(absl::IsUnauthenticated(why(untrusted, OurSide::kTls))) << untrusted;
  }
  const auto closed = [&](OurSide side) {
    const absl::Status status = why("Endpoint read failed", side);
    EXPECT_TRUE(absl::IsAborted(status)) << "a member that ends closes connections, too";
    return std::string(status.message());
  };
  EXPECT_THAT(closed(OurSide::kPlain), HasSubstr("this port speaks TLS (give --etcd-ca)"));
  EXPECT_THAT(closed(OurSide::kTls), HasSubstr("it asks for a certificate (give --etcd-cert"));
  EXPECT_THAT(closed(OurSide::kTlsWithCertificate),
              HasSubstr("it does not take the certificate in --etcd-cert"));
}

class EtcdUserTest : public ::testing::Test {
 protected:
  EtcdUserTest() {
    std::ofstream(folder_ / "password") << "secret\n";
    chmod((folder_ / "password").c_str(), 0600);
    etcd_.AskForToken("ddprun", "secret");
  }
  Options OptionsOf(const std::string& user) {
    return {{etcd_.endpoint()}, "", "", "", user, folder_ / "password"};
  }

  TempDir folder_;
  FakeEtcd etcd_;
};

TEST_F(EtcdUserTest, ShowsATokenAndAsksForAnotherOneWhenEtcdHasForgottenIt) {
  const auto client = ClientOf(OptionsOf("ddprun"));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client->Transact({}, {{"/a", "1"}}, {}, kLimit).ok());
  EXPECT_EQ(etcd_.authentications(), 1);
  etcd_.ForgetTokens();
  EXPECT_TRUE(client->Transact({}, {{"/a", "2"}}, {}, kLimit).ok());
  EXPECT_EQ(etcd_.authentications(), 2);
}

TEST_F(EtcdUserTest, AWrongUserIsAnErrorThatStays) {
  const auto wrong = ClientOf(OptionsOf("somebody"))->Transact({}, {}, {"/a"}, kLimit);
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("--etcd-password-file"));
  const auto nobody =
      ClientOf({{etcd_.endpoint()}, "", "", "", "", ""})->Transact({}, {{"/a", "1"}}, {}, kLimit);
  EXPECT_EQ(nobody.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(nobody.status().message()), HasSubstr("--etcd-user"));
}

// The reachable members refuse us, but an unreachable one might not.
TEST_F(EtcdUserTest, ARefusalCountsWhereAllMembersRefuse) {
  Options options = OptionsOf("somebody");
  options.endpoints.push_back(etcd_.endpoint());
  EXPECT_TRUE(
      absl::IsUnauthenticated(ClientOf(options)->Transact({}, {{"/a", "1"}}, {}, kLimit).status()));
  options.endpoints.push_back(kNobody);
  EXPECT_TRUE(absl::IsAborted(ClientOf(options)->Transact({}, {{"/a", "1"}}, {}, kLimit).status()));
}

TEST_F(EtcdUserTest, AChangedPasswordIsReadForTheNextToken) {
  const auto client = ClientOf(OptionsOf("ddprun"));
  EXPECT_TRUE(client->Transact({}, {{"/a", "1"}}, {}, kLimit).ok());
  etcd_.AskForToken("ddprun", "another");
  etcd_.ForgetTokens();
  EXPECT_TRUE(absl::IsUnauthenticated(client->Transact({}, {}, {"/a"}, kLimit).status()));
  std::ofstream(folder_ / "password") << "another\n";
  EXPECT_TRUE(client->Transact({}, {}, {"/a"}, kLimit).ok());
}

TEST_F(EtcdUserTest, AnEtcdThatAsksNobodyIsUsedWithoutAToken) {
  etcd_.AskForToken("", "");
  EXPECT_TRUE(ClientOf(OptionsOf("ddprun"))->Transact({}, {{"/a", "1"}}, {}, kLimit).ok());
}

TEST_F(EtcdUserTest, APasswordThatOthersCanReadIsRefused) {
  chmod((folder_ / "password").c_str(), 0644);
  const auto client = Client::Create(OptionsOf("ddprun"));
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("--etcd-password-file"));
}

TEST(EtcdClientTest, RefusesOptionsThatDoNotFitTogether) {
  EXPECT_FALSE(Client::Create({{}, "", "", "", "", ""}).ok());
  EXPECT_FALSE(Client::Create({{kNobody}, "", "c", "k", "", ""}).ok());
  EXPECT_FALSE(Client::Create({{kNobody}, "a", "c", "", "", ""}).ok());
  EXPECT_FALSE(Client::Create({{kNobody}, "", "", "", "u", ""}).ok());
}

}  // namespace etcd_client_test
}  // namespace ddprun::etcd
