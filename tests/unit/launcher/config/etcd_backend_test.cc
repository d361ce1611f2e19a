// --rdzv-backend etcd, on the command line and in a job file.
#include <chrono>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/config/flags/cli.h"
#include "launcher/config/job_printer.h"
#include "launcher/config/yaml_config.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/launcher/config/fake_host.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace etcd_backend_test {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

Arguments WithEtcd(Arguments arguments) {
  arguments.insert(arguments.begin(), {"--rdzv-backend=etcd", "--rdzv-endpoint=e1,e2:4001"});
  arguments.emplace_back("./train");
  return arguments;
}

RunCommand RunWith(const Arguments& arguments) { return ParseAs<RunCommand>(WithEtcd(arguments)); }

std::string ErrorOf(const Arguments& arguments) {
  const Command command = Parse(arguments, FakeHost());
  const auto* error = std::get_if<CommandLineError>(&command);
  return error == nullptr ? "no error" : error->message;
}

TEST(EtcdBackendTest, TheEndpointsAreEtcdsAndAnAgentMayStartTheRendezvous) {
  const JobConfig job = RunWith({"--nnodes=2"}).config;
  EXPECT_TRUE(job.rendezvous.in_etcd());
  EXPECT_EQ(job.rendezvous.endpoint, "e1:2379,e2:4001");
  EXPECT_THAT(job.rendezvous.etcd.endpoints, ElementsAre("e1:2379", "e2:4001"));
  EXPECT_EQ(job.rendezvous.etcd.prefix, "/ddprun");
  EXPECT_FALSE(job.rendezvous.etcd.tls());
  EXPECT_EQ(job.rendezvous.autostart, "true");
}

TEST(EtcdBackendTest, AJobFileCanForbidThatAnAgentStartsTheRendezvous) {
  const TempDir folder;
  const std::string file = folder.path() + "/job.yaml";
  std::ofstream(file) << "command: a\nrendezvous: {autostart: false}\n";
  EXPECT_EQ(RunWith({"--config=" + file}).config.rendezvous.autostart, "false");
}

TEST(EtcdBackendTest, ItsRendezvousIsOneOfSeveral) {
  const JobConfig job =
      ParseAs<RunCommand>({"--rdzv-backend=etcd", "--rdzv-endpoint=e", "a"}).config;
  EXPECT_EQ(job.rendezvous.endpoint, "e:2379");
  EXPECT_TRUE(job.rendezvous.several());
  EXPECT_EQ(job.spec.heartbeat, milliseconds(500));
  EXPECT_EQ(
      ErrorOf(WithEtcd({"--rdzv-conf=lease=2"})),
      "--rdzv-conf: lease: with etcd the lease must be at least 3s, or a change of the leader "
      "would end the workers (found 2s); leave it out");
}

TEST(EtcdBackendTest, TorchrunsSettingsOfEtcdAreTaken) {
  const EtcdAccess etcd =
      RunWith({"--rdzv-conf=etcd_prefix=jobs,protocol=https,cacert=ca.crt,cert=/c.crt,key=c.key"})
          .config.rendezvous.etcd;
  EXPECT_EQ(etcd.prefix, "/jobs");
  EXPECT_EQ(etcd.ca_file, "/home/user/ca.crt");
  EXPECT_EQ(etcd.certificate_file, "/c.crt");
  EXPECT_EQ(etcd.key_file, "/home/user/c.key");
}

TEST(EtcdBackendTest, TheFlagsAreThoseOfTheRendezvous) {
  const EtcdAccess etcd = RunWith({"--etcd-prefix=/jobs", "--etcd-ca=ca.crt", "--etcd-user=u",
                                   "--etcd-password-file=p"})
                              .config.rendezvous.etcd;
  EXPECT_EQ(etcd.prefix, "/jobs");
  EXPECT_EQ(etcd.ca_file, "/home/user/ca.crt");
  EXPECT_EQ(etcd.user, "u");
  EXPECT_EQ(etcd.password_file, "/home/user/p");
}

TEST(EtcdBackendTest, WhatDoesNotFitTogetherIsRefusedWithWhatToDo) {
  const auto error = [](const std::string& flag) { return ErrorOf(WithEtcd({flag})); };
  EXPECT_EQ(error("--rdzv-conf=protocol=https"),
            "--rdzv-conf: protocol: https needs cacert, the authority of etcd's certificates");
  EXPECT_EQ(error("--rdzv-conf=protocol=grpc"),
            "--rdzv-conf: protocol: expected http or https (found \"grpc\")");
  EXPECT_THAT(error("--rdzv-conf=protocol=http,cacert=c"),
              StartsWith("--rdzv-conf: protocol: http has no certificates"));
  EXPECT_EQ(error("--rdzv-conf=cert=c"),
            "--rdzv-backend: --etcd-cert, --etcd-key: one needs the other\n"
            "--rdzv-backend: --etcd-cert: needs --etcd-ca, the authority of etcd's own "
            "certificates");
  EXPECT_EQ(error("--etcd-prefix=jobs"),
            "--etcd-prefix: expected /NAME, of at most 200 bytes (found \"jobs\")");
  EXPECT_THAT(error("--rdzv-conf=read_timeout=3"), HasSubstr("found an unknown setting"));
  EXPECT_THAT(ErrorOf({"--rdzv-backend=etcd", "--rdzv-endpoint=e:0", "a"}),
              StartsWith("--rdzv-endpoint: expected HOST:PORT"));
}

TEST(EtcdBackendTest, WithoutAnEndpointItIsRefused) {
  EXPECT_EQ(
      ErrorOf({"--rdzv-backend=etcd", "a"}),
      "--rdzv-backend: etcd needs --rdzv-endpoint HOST:2379, the members of an etcd separated by "
      "commas (found none)");
}

TEST(EtcdBackendTest, WithAnotherBackendItsFlagsAreRefused) {
  EXPECT_EQ(ErrorOf({"--etcd-ca=ca.crt", "--rdzv-endpoint=h", "a"}),
            "--etcd-ca: goes with --rdzv-backend etcd only (rendezvous.backend: etcd)");
  EXPECT_EQ(ErrorOf({"--rdzv-backend=c10d", "--rdzv-conf=protocol=http", "--rdzv-endpoint=h", "a"}),
            "--rdzv-conf: protocol: goes with --rdzv-backend etcd only");
}

TEST(EtcdBackendTest, TheOlderWordIsRefusedWithTheOneToUse) {
  EXPECT_EQ(ErrorOf({"--rdzv-backend=etcd-v2", "--rdzv-endpoint=e:2379", "a"}),
            "--rdzv-backend: etcd's API v2 is not used (found \"etcd-v2\"); say etcd: it takes the "
            "same --rdzv-endpoint, of an etcd 3.4 or newer");
}

TEST(EtcdBackendTest, RanksAreGivenByTheRendezvous) {
  const RunCommand run = RunWith({"--nnodes=2", "--node-rank=1"});
  EXPECT_EQ(run.config.rendezvous.node_rank, -1);
  EXPECT_THAT(run.notes, ElementsAre(AllOf(StartsWith("--node-rank has no effect"),
                                           HasSubstr("with etcd the rendezvous gives the ranks"))));
}

TEST(EtcdBackendTest, AJobFileSaysTheSame) {
  const std::string text =
      "command: a\nrendezvous: {backend: etcd, endpoint: \"e:2379\", etcd_prefix: /jobs}";
  const auto job = ParseJob(text, "job.yaml", FakeHost());
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_TRUE(job->rendezvous.in_etcd());
  EXPECT_EQ(job->rendezvous.etcd.prefix, "/jobs");
  const auto again = ParseJob(ToYaml(*job), "printed.yaml", FakeHost());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->rendezvous.etcd, job->rendezvous.etcd);
}

TEST(EtcdBackendTest, DoctorLooksAtTheEtcdOfTheJob) {
  const auto doctor = ParseAs<DoctorCommand>(
      {"doctor", "--rdzv-backend=etcd", "--rdzv-endpoint=e1,e2", "--etcd-ca=ca.crt"});
  EXPECT_THAT(doctor.etcd.endpoints, ElementsAre("e1:2379", "e2:2379"));
  EXPECT_EQ(doctor.etcd.ca_file, "/home/user/ca.crt");
}

TEST(EtcdBackendTest, OperatorsAskTheSameEtcd) {
  const auto stop =
      ParseAs<OperatorCommand>({"stop", "job", "--rdzv-backend=etcd", "--rdzv-endpoint=e1,e2:4001",
                                "--etcd-prefix=/jobs", "--etcd-ca=ca.crt"});
  ASSERT_TRUE(stop.etcd);
  EXPECT_THAT(stop.etcd->endpoints, ElementsAre("e1:2379", "e2:4001"));
  EXPECT_EQ(stop.etcd->prefix, "/jobs");
  EXPECT_EQ(stop.etcd->ca_file, "/home/user/ca.crt");
  EXPECT_FALSE(ParseAs<OperatorCommand>({"status", "--rdzv-backend=c10d"}).etcd);
}

TEST(EtcdBackendTest, OperatorsHearWhatDoesNotFitTogether) {
  EXPECT_EQ(ErrorOf({"status", "--rdzv-backend=etcd"}),
            "--rdzv-backend etcd needs --rdzv-endpoint HOST:2379, the members of an etcd");
  EXPECT_EQ(ErrorOf({"status", "--etcd-ca=ca.crt"}),
            "--etcd-ca: goes with --rdzv-backend etcd only");
  EXPECT_THAT(ErrorOf({"status", "--rdzv-backend=etcd-v2"}),
              StartsWith("--rdzv-backend: expected etcd, or one of c10d, static, ddprun"));
}

}  // namespace etcd_backend_test
}  // namespace ddprun
