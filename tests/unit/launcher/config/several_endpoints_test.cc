// Several rendezvous with one leader: on the command line and in a job file.
#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/config/flags/cli.h"
#include "launcher/config/values.h"
#include "launcher/config/yaml_config.h"
#include "tests/unit/launcher/config/fake_host.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace several_endpoints_test {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

constexpr char kThree[] = "--rdzv-endpoint=h1,h2:7,[::1]:8";

Arguments WithCommand(Arguments arguments) {
  arguments.insert(arguments.end(), {kThree, "./train"});
  return arguments;
}

JobConfig JobOf(const Arguments& arguments, const FakeHost& host = {}) {
  return ParseAs<RunCommand>(WithCommand(arguments), host).config;
}

std::string ErrorOf(const Arguments& arguments) {
  const Command command = Parse(WithCommand(arguments), FakeHost());
  const auto* error = std::get_if<CommandLineError>(&command);
  return error == nullptr ? "no error" : error->message;
}

TEST(EndpointsTest, EachGetsItsPort) {
  EXPECT_THAT(ParseEndpoints("h1, h2:7,[::1]", 1, 29400),
              Optional(std::string("h1:29400,h2:7,[::1]:29400")));
  EXPECT_THAT(SplitEndpoints("h1:29400,h2:7"), ElementsAre("h1:29400", "h2:7"));
  EXPECT_THAT(SplitEndpoints("unix:/a,b"), ElementsAre("unix:/a,b"));
}

TEST(EndpointsTest, NineDifferentOnesAtMost) {
  EXPECT_TRUE(ParseEndpoints("a,b,c,d,e,f,g,h,i", 1, 1).has_value());
  for (const char* const text :
       {"a,b,c,d,e,f,g,h,i,j", "a,a", "a,a:1", "a,", ",a", "", "a,,b", "a,unix:/b", "a,b:0"}) {
    EXPECT_EQ(ParseEndpoints(text, 1, 1), std::nullopt) << text;
  }
}

TEST(SeveralEndpointsTest, NobodyStartsOneAndAgentsAreHeardMoreOften) {
  const JobConfig job = JobOf({"--nnodes=2"});
  EXPECT_EQ(job.rendezvous.endpoint, "h1:29400,h2:7,[::1]:8");
  EXPECT_TRUE(job.rendezvous.several());
  EXPECT_EQ(job.rendezvous.autostart, "false");
  EXPECT_EQ(job.rendezvous.spare_ports, 0);
  EXPECT_EQ(job.spec.heartbeat, milliseconds(500));
  EXPECT_EQ(job.spec.lease, milliseconds(3000));
  EXPECT_EQ(JobOf({"--rdzv-backend=c10d"}).rendezvous.autostart, "false");
  EXPECT_EQ(JobOf({"--rdzv-conf=keep_alive_interval=1"}).spec.heartbeat, milliseconds(1000));
}

TEST(SeveralEndpointsTest, OneEndpointIsAsBefore) {
  const RunCommand run = ParseAs<RunCommand>({"--rdzv-endpoint=h1", "./train"});
  EXPECT_FALSE(run.config.rendezvous.several());
  EXPECT_EQ(run.config.rendezvous.autostart, "auto");
  EXPECT_EQ(run.config.spec.heartbeat, milliseconds(1000));
}

TEST(SeveralEndpointsTest, AShorterLeaseIsRefusedWithWhatToDo) {
  EXPECT_EQ(ErrorOf({"--rdzv-conf=lease=2"}),
            "--rdzv-conf: lease: with several endpoints the lease must be at least 3s, or a change "
            "of the leader would end the workers (found 2s); leave it out");
  EXPECT_EQ(JobOf({"--rdzv-conf=lease=3"}).spec.lease, milliseconds(3000));
}

TEST(SeveralEndpointsTest, WhatIsForOneEndpointIsRefused) {
  EXPECT_EQ(ErrorOf({"--rdzv-backend=static"}),
            "--rdzv-backend: static has one endpoint, where the workers meet; c10d and ddprun take "
            "several");
  const auto job = ParseJob("command: a\nrendezvous: {endpoint: \"a:1,b:1\", autostart: true}",
                            "job.yaml", FakeHost());
  EXPECT_THAT(std::string(job.status().message()),
              AllOf(StartsWith("job.yaml:2:"),
                    HasSubstr("rendezvous.autostart: an agent starts a "
                              "rendezvous at a single endpoint only"),
                    HasSubstr("ddprun rendezvous --etcd")));
}

TEST(SeveralEndpointsTest, AWrongOneIsRefusedWithWhatIsExpected) {
  for (const char* const wrong : {"h1,h1:29400", "h1:29400,unix:/x", "h1,,h2", "h1,h2:0"}) {
    const Command command = Parse({std::string("--rdzv-endpoint=") + wrong, "./train"}, FakeHost());
    ASSERT_TRUE(std::holds_alternative<CommandLineError>(command)) << wrong;
    EXPECT_THAT(std::get<CommandLineError>(command).message,
                AllOf(StartsWith("--rdzv-endpoint: expected HOST:PORT"),
                      HasSubstr("up to 9 different ones, with commas")));
  }
}

TEST(SeveralEndpointsTest, OperatorsGiveThemToo) {
  EXPECT_EQ(ParseAs<OperatorCommand>({"status", kThree}).endpoint, "h1:29400,h2:7,[::1]:8");
  const Command command = Parse({"status", "--rdzv-endpoint=a,unix:/b"}, FakeHost());
  EXPECT_THAT(std::get<CommandLineError>(command).message,
              AllOf(StartsWith("--rdzv-endpoint: expected HOST:PORT"), HasSubstr("with commas")));
}

TEST(SeveralEndpointsTest, PodsLeaveThemAlone) {
  FakeHost host;
  host.name = "train-0";
  host.variables["JOB_COMPLETION_INDEX"] = "0";
  host.variables["KUBERNETES_SERVICE_HOST"] = "10.96.0.1";
  host.hosts_file = "10.244.1.7\ttrain-0.train.default.svc.cluster.local\ttrain-0\n";
  const JobConfig job = JobOf({"--nnodes=2"}, host);
  EXPECT_EQ(job.rendezvous.endpoint, "h1:29400,h2:7,[::1]:8");
  EXPECT_EQ(job.rendezvous.autostart, "false");
  EXPECT_EQ(job.local_addr, "10.244.1.7");
}

}  // namespace several_endpoints_test
}  // namespace ddprun
