// Files of TLS that change while they are used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <vector>

#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/auth/tls/peer_certificate.h"
#include "rendezvous/auth/tls/watch.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace ddprun::auth {
namespace tls_identity_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TlsIdentityTest : public testing::Test {
 protected:
  TlsIdentityTest() {
    Make("first", std::chrono::hours(24 * 30));
    Take("first", ".crt");
    Take("first", ".key");
    identity_ = TlsIdentity::Load(paths_, Now()).value();
  }
  static TlsIdentity::WallTime Now() { return std::chrono::system_clock::now(); }
  void Make(const std::string& name, std::chrono::seconds lifetime) {
    EXPECT_TRUE(MakeCertificates({folder_ / "certs", "ann", {{name}}, lifetime}).ok());
  }
  // Programs that renew certificates replace one file after the other, each with a rename.
  void Take(const std::string& name, const std::string& suffix) {
    EXPECT_EQ(std::rename((folder_ / ("certs/" + name + suffix)).c_str(),
                          (folder_ / ("own" + suffix)).c_str()),
              0);
  }
  std::string Shown() const { return CertificateSha256(identity_->current()->cert); }

  TempDir folder_;
  const TlsPaths paths_{folder_ / "certs/ca.crt", folder_ / "own.crt", folder_ / "own.key"};
  std::shared_ptr<TlsIdentity> identity_;
};

TEST_F(TlsIdentityTest, IsReadAgainOnlyWhenAFileHasChanged) {
  const auto current = identity_->current();
  EXPECT_FALSE(identity_->Refresh(Now()).value());
  EXPECT_EQ(identity_->current(), current);
}

TEST_F(TlsIdentityTest, ARenewedCertificateIsTakenUpAndTheOldOneIsRemembered) {
  const std::string first = Shown();
  Make("second", std::chrono::hours(24 * 30));
  Take("second", ".crt");
  Take("second", ".key");
  EXPECT_TRUE(identity_->Refresh(Now()).value());
  EXPECT_NE(Shown(), first);
  EXPECT_THAT(identity_->shown(), ElementsAre(Shown(), first));
  EXPECT_FALSE(identity_->Refresh(Now()).value());
}

// Seen red with a Refresh that takes up a certificate and a key that do not fit together.
TEST_F(TlsIdentityTest, HalfOfAPairIsNotTakenUp) {
  const std::string first = Shown();
  Make("second", std::chrono::hours(24 * 30));
  Take("second", ".crt");
  for (int look = 0; look < 2; ++look) {
    EXPECT_THAT(std::string(identity_->Refresh(Now()).status().message()),
                HasSubstr("does not belong to the certificate"));
    EXPECT_EQ(Shown(), first);
  }
  Take("second", ".key");
  EXPECT_TRUE(identity_->Refresh(Now()).value());
  EXPECT_NE(Shown(), first);
}

TEST_F(TlsIdentityTest, AFileThatIsAwayOrNoGoodChangesNothing) {
  const std::string first = Shown();
  const auto why = [&] { return std::string(identity_->Refresh(Now()).status().message()); };
  ASSERT_EQ(std::rename(paths_.key.c_str(), (folder_ / "away").c_str()), 0);
  EXPECT_THAT(why(), HasSubstr(paths_.key));
  ASSERT_EQ(std::rename((folder_ / "away").c_str(), paths_.key.c_str()), 0);
  EXPECT_TRUE(identity_->Refresh(Now()).value()) << "another file, as far as we know";
  ASSERT_EQ(chmod(paths_.key.c_str(), 0644), 0);
  EXPECT_THAT(why(), HasSubstr("chmod 600"));
  ASSERT_EQ(chmod(paths_.key.c_str(), 0600), 0);
  Make("old", std::chrono::hours(-24));
  Take("old", ".crt");
  Take("old", ".key");
  EXPECT_THAT(why(), HasSubstr("expired on"));
  EXPECT_EQ(Shown(), first);
}

TEST_F(TlsIdentityTest, AnotherAuthorityAloneIsTakenUp) {
  ASSERT_TRUE(MakeCertificates({folder_ / "theirs", "ann", {{"node"}}}).ok());
  ASSERT_EQ(std::rename((folder_ / "theirs/ca.crt").c_str(), paths_.ca.c_str()), 0);
  EXPECT_TRUE(identity_->Refresh(Now()).value());
  EXPECT_EQ(identity_->current()->ca, ReadFile(paths_.ca));
  EXPECT_THAT(identity_->shown(), ElementsAre(Shown()));
}

class Heard {
 public:
  TlsWatch::Log Log() {
    return [this](bool ok, const std::string& text) {
      const std::lock_guard lock(mutex_);
      lines_.push_back((ok ? "ok: " : "warning: ") + text);
      changed_.notify_all();
    };
  }
  std::string Line(std::size_t index) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, kHang, [&] { return lines_.size() > index; });
    return came ? lines_[index] : "";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

TEST_F(TlsIdentityTest, TheWatchSaysWhatItTakesUpAndWhatItCannotUseOnce) {
  Heard heard;
  const TlsWatch watch(identity_, heard.Log(), std::chrono::milliseconds(5));
  Make("second", std::chrono::hours(24 * 30));
  Take("second", ".crt");
  EXPECT_THAT(heard.Line(0), StartsWith("warning: the TLS files have changed, and cannot be used: "
                                        "--tls-key"));
  Take("second", ".key");
  EXPECT_THAT(heard.Line(1), StartsWith("ok: the TLS files have changed: new connections use "
                                        "them; the certificate expires on 20"));
}

}  // namespace tls_identity_test
}  // namespace ddprun::auth
