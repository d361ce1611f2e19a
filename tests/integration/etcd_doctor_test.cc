// `ddprun doctor --etcd` as a program, against a real etcd in good and bad states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/capabilities.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/job.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace etcd_doctor_test {

using testing::AllOf;
using testing::HasSubstr;

class EtcdDoctorTest : public testing::Test {
 protected:
  void SetUp() override { DDPRUN_NEEDS(MissingForEtcd()); }

  void Begin(EtcdCluster::Options options = {}) {
    etcd_ = std::make_unique<EtcdCluster>(3, std::move(options));
  }
  // Runs the doctor and keeps the result of each check. `ok`: it must exit with 0.
  void Ask(std::vector<std::string> flags, bool ok) {
    std::vector<std::string> argv = {DdprunPath(), "doctor", "--json"};
    argv.insert(argv.end(), flags.begin(), flags.end());
    Program doctor(argv);
    EXPECT_EQ(doctor.ExitCode(), ok ? 0 : 1) << doctor.out() << doctor.err();
    checks_ = nlohmann::json::parse(doctor.out()).at("checks");
  }
  std::string Members() const { return absl::StrJoin(etcd_->endpoints(), ","); }
  // "RESULT: TEXT" of a check; "" if the doctor did not make this check.
  std::string Of(const std::string& name) const {
    for (const auto& check : checks_) {
      if (check.at("name") != name) continue;
      return absl::StrCat(check.at("result").get<std::string>(), ": ",
                          check.at("text").get<std::string>());
    }
    return "";
  }

  TempDir folder_;
  std::unique_ptr<EtcdCluster> etcd_;
  nlohmann::json checks_;
};

TEST_F(EtcdDoctorTest, AHealthyClusterPassesAndALostMemberIsNamed) {
  Begin();
  Ask({"--etcd", Members()}, true);
  EXPECT_EQ(Of("members"), "ok: all 3 answer");
  EXPECT_THAT(Of("quorum"), HasSubstr("ok: led by 127.0.0.1:"));
  EXPECT_THAT(Of("writes"), HasSubstr("ok: a transaction takes: "));
  EXPECT_THAT(Of("clocks"), HasSubstr("ok: no member's differs from this host's by more than "));
  EXPECT_EQ(Of("election"), "ok: 300 ms");

  const int lost = etcd_->WaitForLeader();
  etcd_->Kill(lost);
  etcd_->WaitForLeader();
  Ask({"--etcd", Members()}, true);
  EXPECT_EQ(Of("members"), absl::StrCat("warning: 2 of 3 answer; ", etcd_->endpoints()[lost],
                                        ": connection refused"));
  EXPECT_THAT(Of("quorum"), HasSubstr("ok: led by"));
}

TEST_F(EtcdDoctorTest, ALostQuorumSaysHowManyAreNeeded) {
  Begin();
  etcd_->Kill(0);
  etcd_->Freeze(1);
  Ask({"--etcd", Members()}, false);
  EXPECT_THAT(Of("members"),
              AllOf(HasSubstr("failure: 1 of 3 answer; "), HasSubstr(": connection refused"),
                    HasSubstr("nothing is written until 2 of them run and reach each other")));
  EXPECT_THAT(Of("quorum"), HasSubstr("failure: no member knows a leader"));
  EXPECT_THAT(Of("reads"), HasSubstr("failure: "));
  etcd_->Thaw(1);
}

TEST_F(EtcdDoctorTest, AWrongPortIsSaid) {
  Begin();
  Ask({"--etcd", "127.0.0.1:1"}, false);
  EXPECT_THAT(Of("members"), HasSubstr("failure: 0 of 1 answer; 127.0.0.1:1: connection refused"));
  EXPECT_EQ(Of("reads"), "");  // the doctor reports the wrong port once
}

TEST_F(EtcdDoctorTest, PlainAgainstTlsSaysWhichFlagIsMissing) {
  Program certs({DdprunPath(), "certs", folder_ / "certs", "--host", "head", "--name", "ddprun"});
  ASSERT_EQ(certs.ExitCode(), 0) << certs.err();
  Program others({DdprunPath(), "certs", folder_ / "others", "--host", "head", "--name", "ddprun"});
  ASSERT_EQ(others.ExitCode(), 0) << others.err();
  Begin({{}, folder_ / "certs"});
  const auto tls = [&](const std::string& ca, const std::string& own) {
    std::vector<std::string> flags = {"--etcd", Members(), "--etcd-ca", folder_ / ca + "/ca.crt"};
    if (own.empty()) return flags;
    flags.insert(flags.end(), {"--etcd-cert", folder_ / own + "/head.crt", "--etcd-key",
                               folder_ / own + "/head.key"});
    return flags;
  };
  Ask(tls("certs", "certs"), true);
  EXPECT_EQ(Of("tls"), "ok: its certificates are of --etcd-ca");
  EXPECT_THAT(Of("clocks"), HasSubstr("ok: "));
  EXPECT_EQ(Of("election"), "ok: 300 ms");
  Ask({"--etcd", Members()}, false);
  EXPECT_THAT(Of("members"), HasSubstr("this port speaks TLS (give --etcd-ca)"));
  Ask(tls("certs", ""), false);
  EXPECT_THAT(Of("members"), HasSubstr("it asks for a certificate (give --etcd-cert"));
  Ask(tls("certs", "others"), false);
  EXPECT_THAT(Of("members"), HasSubstr("it does not take the certificate in --etcd-cert"));
  Ask(tls("others", "certs"), false);
  EXPECT_THAT(Of("members"), HasSubstr("is not of the authority in --etcd-ca"));
}

TEST_F(EtcdDoctorTest, TlsAgainstPlainIsSaid) {
  Program certs({DdprunPath(), "certs", folder_ / "certs", "--host", "head", "--name", "ddprun"});
  ASSERT_EQ(certs.ExitCode(), 0) << certs.err();
  Begin();
  Ask({"--etcd", Members(), "--etcd-ca", folder_ / "certs/ca.crt"}, false);
  EXPECT_THAT(Of("members"), HasSubstr("or does not speak TLS"));
}

TEST_F(EtcdDoctorTest, AFullOneSaysWhichCommandsMakeRoom) {
  Begin({{"--quota-backend-bytes", "300000"}, ""});
  int tries = 0;
  while (etcd_->Ctl({"put", "/a", std::string(50'000, 'x')}) && ++tries < 100) continue;
  Ask({"--etcd", Members()}, false);
  EXPECT_THAT(Of("space"), AllOf(HasSubstr("failure: "), HasSubstr("the alarm NOSPACE is on"),
                                 HasSubstr("`etcdctl compact ")));
  EXPECT_THAT(Of("reads"), HasSubstr("ok: "));
  EXPECT_THAT(Of("writes"), HasSubstr("failure: "));
}

}  // namespace etcd_doctor_test
}  // namespace ddprun
