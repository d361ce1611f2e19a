// Rendezvous over an etcd that asks for certificates, users and passwords. Rendezvous and agents
// also ask each other for certificates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rendezvous/auth/certificates.h"
#include "tests/integration/failover_fixture.h"
#include "tests/support/capabilities.h"

namespace ddprun {
namespace etcd_security_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kPassword[] = "s3cret-of-etcd";
// With this cost, etcd checks a password in milliseconds, even on a busy machine.
const std::vector<std::string> kCheapPasswords = {"--bcrypt-cost", "4"};

class EtcdSecurityTest : public FailoverFixture {
 protected:
  void SetUp() override { DDPRUN_NEEDS(MissingForEtcd()); }

  // Makes ca.crt in folder_/`folder` unless it exists, and `host`.crt and `host`.key signed by it.
  std::string Certificates(const std::string& folder, const std::string& host = "head",
                           std::chrono::seconds lifetime = std::chrono::hours(24)) {
    auth::CertificatesToMake what;
    what.folder = folder_ / folder;
    what.name = "ddprun";
    what.nodes = {{host}};
    what.lifetime = lifetime;
    EXPECT_TRUE(auth::MakeCertificates(what).ok());
    return what.folder;
  }
  std::string Password(const std::string& name, const std::string& password) {
    const std::string path = folder_ / name;
    std::ofstream(path) << password << "\n";
    chmod(path.c_str(), 0600);
    return path;
  }
  static std::vector<std::string> Tls(const std::string& prefix, const std::string& ca_folder,
                                      const std::string& own_folder) {
    std::vector<std::string> flags = {prefix + "-ca", ca_folder + "/ca.crt"};
    if (own_folder.empty()) return flags;
    flags.insert(flags.end(), {prefix + "-cert", own_folder + "/head.crt", prefix + "-key",
                               own_folder + "/head.key"});
    return flags;
  }
  // Makes etcd ask for a user. The user may use only ddprun's prefix, as in docs/ha.md. `right`:
  // readwrite or read.
  void AskForUsers(const std::string& right = "readwrite") {
    const std::vector<std::vector<std::string>> commands = {
        {"user", "add", "root:root"},
        {"user", "grant-role", "root", "root"},
        {"role", "add", "ddprun"},
        {"role", "grant-permission", "ddprun", right, "--prefix=true", "/ddprun/"},
        {"user", "add", std::string("head:") + kPassword},
        {"user", "grant-role", "head", "ddprun"},
        {"auth", "enable"}};
    for (const auto& command : commands) ASSERT_TRUE(etcd_->Ctl(command)) << command[0];
  }
  // A rendezvous with these flags at the etcd ends with this exit code and says why.
  void ExpectEnd(std::vector<std::string> flags, int exit_code, const std::string& why) {
    std::vector<std::string> argv = {DdprunPath(), "rendezvous",
                                     "--listen",   "127.0.0.1:0",
                                     "--etcd",     absl::StrJoin(etcd_->endpoints(), ",")};
    argv.insert(argv.end(), flags.begin(), flags.end());
    Program rendezvous(argv);
    EXPECT_EQ(rendezvous.ExitCode(), exit_code) << rendezvous.err();
    EXPECT_THAT(rendezvous.err(), HasSubstr(why));
  }
};

template <class... Parts>
std::vector<std::string> Joined(std::vector<std::string> all, const Parts&... more) {
  (all.insert(all.end(), more.begin(), more.end()), ...);
  return all;
}

TEST_F(EtcdSecurityTest, WithCertificatesAndAUserAKilledLeaderRestartsNoWorker) {
  const std::string etcds = Certificates("etcd");
  const std::string ours = Certificates("ours");
  const std::string password = Password("password", kPassword);
  etcd_ = std::make_unique<EtcdCluster>(3, EtcdCluster::Options{kCheapPasswords, etcds});
  AskForUsers();
  rendezvous_ = std::make_unique<RendezvousGroup>(
      Joined({"--etcd", absl::StrJoin(etcd_->endpoints(), ","), "--etcd-user", "head",
              "--etcd-password-file", password},
             Tls("--etcd", etcds, etcds), Tls("--tls", ours, ours)),
      3);
  leader_ = rendezvous_->WaitForLeader({0, 0, 0});
  ASSERT_GE(leader_, 0) << (*rendezvous_)[0].err();
  StartJob(0, Tls("--tls", ours, ours));
  const auto workers = Workers();
  const auto before = rendezvous_->Reigns();
  leader().Signal(SIGKILL);
  leader().ExitCode();
  WaitForNext(before);
  Program status(Joined({DdprunPath(), "status", "--rdzv-endpoint", rendezvous_->endpoints()},
                        Tls("--tls", ours, ours)));
  EXPECT_EQ(status.ExitCode(), 0) << status.err();
  EXPECT_THAT(status.out(), HasSubstr("it leads at"));
  EndUndisturbed(workers);
}

// With --rdzv-backend etcd, the agents read etcd with these credentials, and the agent that starts
// the rendezvous passes them on to it.
TEST_F(EtcdSecurityTest, WithCertificatesAndAUserAgentsFindAndStartTheirRendezvous) {
  const std::string etcds = Certificates("etcd");
  const std::string password = Password("password", kPassword);
  etcd_ = std::make_unique<EtcdCluster>(1, EtcdCluster::Options{kCheapPasswords, etcds});
  AskForUsers();
  Job job(folder_ / "job");
  for (int node = 0; node < 2; ++node) {
    job.AddNode(Joined(
        {"--rdzv-backend=etcd", "--rdzv-endpoint=" + etcd_->endpoints().front(), "--rdzv-id=job",
         "--nnodes=2", "--etcd-user=head", "--etcd-password-file=" + password},
        Tls("--etcd", etcds, etcds), std::vector<std::string>{"sh", "-c", "echo rank $RANK"}));
  }
  std::string ranks;
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(job.node(node).ExitCode(), 0) << job.node(node).err();
    ranks += job.node(node).out();
  }
  EXPECT_THAT(ranks, AllOf(HasSubstr("rank 0"), HasSubstr("rank 1")));
}

TEST_F(EtcdSecurityTest, CertificatesThatDoNotFitEndIt) {
  const std::string etcds = Certificates("etcd");
  const std::string others = Certificates("others");
  const std::string old = Certificates("old", "head", -std::chrono::hours(1));
  etcd_ = std::make_unique<EtcdCluster>(1, EtcdCluster::Options{{}, etcds});
  ExpectEnd(Tls("--etcd", others, etcds), 77, "is not of the authority in --etcd-ca");
  ExpectEnd(Tls("--etcd", etcds, old), 64, "expired on");
}

// etcd closes such a connection without an error message, just as a member that ends does. So the
// rendezvous tries again.
TEST_F(EtcdSecurityTest, ACertificateThatEtcdDoesNotTakeIsSaidAndTriedOn) {
  const std::string etcds = Certificates("etcd");
  const std::string others = Certificates("others");
  etcd_ = std::make_unique<EtcdCluster>(1, EtcdCluster::Options{{}, etcds});
  Program rendezvous(Joined(
      {DdprunPath(), "rendezvous", "--listen", "127.0.0.1:0", "--etcd", etcd_->endpoints()[0]},
      Tls("--etcd", etcds, others)));
  EXPECT_TRUE(rendezvous.WaitForErr("it does not take the certificate in --etcd-cert"));
  rendezvous.Signal(SIGTERM);
  EXPECT_EQ(rendezvous.ExitCode(), 0);
}

// An etcd member keeps running when its certificate expires. Clients refuse the expired
// certificate.
TEST_F(EtcdSecurityTest, AnEtcdWhoseCertificateHasExpiredEndsIt) {
  const std::string etcds = Certificates("etcd");
  etcd_ = std::make_unique<EtcdCluster>(1, EtcdCluster::Options{{}, etcds});
  Certificates("etcd", "old", -std::chrono::hours(1));
  for (const char* const kind : {".crt", ".key"}) {  // etcd reads both files for each connection
    std::filesystem::rename(etcds + "/old" + kind, etcds + "/head" + kind);
  }
  ExpectEnd(Tls("--etcd", etcds, ""), 77, "its certificate has expired");
}

TEST_F(EtcdSecurityTest, AWrongPasswordOrTooFewRightsEndIt) {
  etcd_ = std::make_unique<EtcdCluster>(1, kCheapPasswords);
  AskForUsers("read");
  const std::string right = Password("right", kPassword);
  const std::string wrong = Password("wrong", "another");
  ExpectEnd({"--etcd-user", "head", "--etcd-password-file", wrong}, 77,
            "check --etcd-user and --etcd-password-file");
  ExpectEnd({}, 77, "give --etcd-user and --etcd-password-file");
  ExpectEnd({"--etcd-user", "head", "--etcd-password-file", right}, 77,
            "grant the role of --etcd-user read and write");
  ExpectEnd({"--etcd-user", "head", "--etcd-password-file", right, "--etcd-prefix", "/other"}, 77,
            "permission denied");
}

}  // namespace etcd_security_test
}  // namespace ddprun
