// The certificates that `ddprun certs` makes, and the errors for unusable files.
#include "rendezvous/auth/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "rendezvous/auth/openssl_types.h"
#include "rendezvous/auth/tls_files.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace ddprun::auth {
namespace certificates_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class CertificatesTest : public testing::Test {
 protected:
  absl::Status Make(const std::vector<std::vector<std::string>>& nodes, int days = 30) {
    return MakeCertificates({folder_ / "certs", "ann", nodes, std::chrono::hours(24 * days)})
        .status();
  }
  std::string operator/(const std::string& name) const { return folder_ / ("certs/" + name); }
  CertificatePtr Certificate(const std::string& name) const {
    const std::string pem = ReadFile(*this / name);
    const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
    return CertificatePtr(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  }
  // Whether the authority in the folder has signed the certificate for this purpose.
  bool IsTrusted(const std::string& name, int purpose) const {
    const std::unique_ptr<X509_STORE, Free<X509_STORE_free>> store(X509_STORE_new());
    const CertificatePtr authority = Certificate("ca.crt");
    X509_STORE_add_cert(store.get(), authority.get());
    const CertificatePtr certificate = Certificate(name);
    const std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
    X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr);
    X509_STORE_CTX_set_purpose(context.get(), purpose);
    return X509_verify_cert(context.get()) == 1;
  }
  std::string LoadError(const std::string& ca, const std::string& cert, const std::string& key,
                        std::chrono::hours later = {}) const {
    const auto pem = LoadTlsFiles({ca, cert, key}, std::chrono::system_clock::now() + later);
    EXPECT_FALSE(pem.ok());
    return std::string(pem.status().message());
  }

  TempDir folder_;
};

TEST_F(CertificatesTest, AreGoodForServersAndClientsOfTheirHosts) {
  ASSERT_TRUE(Make({{"node1.example", "10.0.0.7"}, {"fd00::7"}}).ok());
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    EXPECT_TRUE(IsTrusted("node1.example.crt", purpose));
    EXPECT_TRUE(IsTrusted("fd00::7.crt", purpose));
  }
  const CertificatePtr node = Certificate("node1.example.crt");
  for (const char* name : {"node1.example", "localhost"}) {
    EXPECT_EQ(X509_check_host(node.get(), name, 0, 0, nullptr), 1) << name;
  }
  for (const char* address : {"10.0.0.7", "127.0.0.1", "::1"}) {
    EXPECT_EQ(X509_check_ip_asc(node.get(), address, 0), 1) << address;
  }
  EXPECT_EQ(X509_check_host(node.get(), "node2.example", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(Certificate("fd00::7.crt").get(), "fd00::7", 0), 1);
}

TEST_F(CertificatesTest, AServersOwnOneIsGoodForTheNamesThatItIsGiven) {
  const TlsPem pem = MakeSelfSigned("ddprun", {"head", "10.0.0.7", "", "no name"});
  const BioPtr bio(BIO_new_mem_buf(pem.cert.data(), static_cast<int>(pem.cert.size())));
  const CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  for (const char* host : {"head", "localhost"}) {
    EXPECT_EQ(X509_check_host(certificate.get(), host, 0, 0, nullptr), 1) << host;
  }
  for (const char* address : {"10.0.0.7", "127.0.0.1"}) {
    EXPECT_EQ(X509_check_ip_asc(certificate.get(), address, 0), 1) << address;
  }
  EXPECT_EQ(X509_check_host(certificate.get(), "other", 0, 0, nullptr), 0);
}

TEST_F(CertificatesTest, KeysArePrivate) {
  ASSERT_TRUE(Make({{"node"}}).ok());
  for (const auto& [name, mode] : std::map<std::string, mode_t>{{"ca.crt", 0644},
                                                                {"ca.key", 0600},
                                                                {"node.crt", 0644},
                                                                {"node.key", 0600},
                                                                {"", 0700}}) {
    struct stat info {};
    ASSERT_EQ(stat((*this / name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, mode) << name;
  }
}

TEST_F(CertificatesTest, NothingIsWrittenOver) {
  ASSERT_TRUE(Make({{"a"}}).ok());
  const std::string before = ReadFile(*this / "a.crt") + ReadFile(*this / "ca.crt");
  const absl::Status again = Make({{"b"}, {"a"}});
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr("certs/a.crt is there already"));
  EXPECT_EQ(ReadFile(*this / "a.crt") + ReadFile(*this / "ca.crt"), before);
  EXPECT_EQ(ReadFile(*this / "b.crt"), "") << "all or nothing";
}

TEST_F(CertificatesTest, NodesCanBeAddedLater) {
  ASSERT_TRUE(Make({{"a"}}).ok());
  const auto more = MakeCertificates({folder_ / "certs", "ann", {{"b"}}});
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_THAT(*more, ElementsAre(*this / "b.crt", *this / "b.key"));
  EXPECT_TRUE(IsTrusted("a.crt", X509_PURPOSE_SSL_SERVER));
  EXPECT_TRUE(IsTrusted("b.crt", X509_PURPOSE_SSL_SERVER));
}

TEST_F(CertificatesTest, OddHostsAreRefused) {
  for (const char* host : {"", "a b", "../x", "a,DNS:b", "ca"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Make({{host}}))) << host;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Make({{"a"}, {"a"}})));
  EXPECT_EQ(ReadFile(*this / "ca.crt"), "");
}

TEST_F(CertificatesTest, FilesThatBelongTogetherAreLoaded) {
  ASSERT_TRUE(Make({{"node"}}).ok());
  const auto pem = LoadTlsFiles({*this / "ca.crt", *this / "node.crt", *this / "node.key"},
                                std::chrono::system_clock::now());
  ASSERT_TRUE(pem.ok()) << pem.status();
  EXPECT_EQ(pem->warning, "");
  EXPECT_EQ(pem->cert, ReadFile(*this / "node.crt"));
  const auto late = LoadTlsFiles({"", *this / "node.crt", *this / "node.key"},
                                 std::chrono::system_clock::now() + std::chrono::hours(24 * 20));
  ASSERT_TRUE(late.ok());
  EXPECT_THAT(late->warning, HasSubstr("node.crt expires on 20"));
}

TEST_F(CertificatesTest, WhatIsWrongWithAFileIsSaidWithItsPath) {
  ASSERT_TRUE(Make({{"node"}, {"other"}}).ok());
  ASSERT_TRUE(
      MakeCertificates({folder_ / "certs", "ann", {{"old"}}, std::chrono::hours(-24)}).ok());
  const std::string ca = *this / "ca.crt", cert = *this / "node.crt", key = *this / "node.key";
  EXPECT_THAT(LoadError(*this / "none", "", ""), HasSubstr("--tls-ca " + (*this / "none")));
  EXPECT_THAT(LoadError(key, "", ""), HasSubstr(key + ": expected certificates in PEM form"));
  EXPECT_THAT(LoadError(ca, cert, *this / "other.key"),
              HasSubstr("other.key does not belong to the certificate " + cert));
  EXPECT_THAT(LoadError(ca, cert, cert), HasSubstr("others than its owner may use it"));
  EXPECT_THAT(LoadError(ca, *this / "old.crt", *this / "old.key"),
              MatchesRegex(".*old.crt expired on 20..-..-.. ..:..:.. UTC"));
  EXPECT_THAT(LoadError(ca, cert, key, std::chrono::hours(-24)), HasSubstr("is not valid before"));
  std::ofstream(key) << ReadFile(cert);
  EXPECT_THAT(LoadError(ca, cert, key), HasSubstr("expected a private key in PEM form"));
  std::ofstream(cert, std::ios::app)
      << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  EXPECT_THAT(LoadError(ca, cert, key), HasSubstr("expected certificates in PEM form"));
}

}  // namespace certificates_test
}  // namespace ddprun::auth
