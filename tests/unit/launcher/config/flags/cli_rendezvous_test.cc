// The command lines of `ddprun rendezvous`, and of the commands that talk to a rendezvous.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace cli_rendezvous_test {

using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(CliRendezvousTest, ListensWhereItIsTold) {
  const auto command =
      ParseAs<RendezvousCommand>({"rendezvous", "--listen", "0.0.0.0:29400", "--insecure", "-v"});
  EXPECT_EQ(command.host, "0.0.0.0");
  EXPECT_EQ(command.port, 29400);
  EXPECT_TRUE(command.insecure);
  EXPECT_EQ(command.verbosity, 1);
  EXPECT_EQ(command.port_file, "");
  EXPECT_EQ(command.state_dir, "");
  EXPECT_FALSE(command.until_idle.has_value());
}

TEST(CliRendezvousTest, EndsWhenIdleWhereItIsTold) {
  EXPECT_EQ(
      ParseAs<RendezvousCommand>({"rendezvous", "--listen=a:1", "--until-idle", "2s"}).until_idle,
      seconds(2));
  EXPECT_THAT(ErrorOf({"rendezvous", "--listen=a:1", "--until-idle", "soon"}),
              StartsWith("--until-idle: expected a duration such as 60s (found \"soon\")"));
}

TEST(CliRendezvousTest, WaitsForAJobWhileItsStarterLives) {
  EXPECT_EQ(ParseAs<RendezvousCommand>(
                {"rendezvous", "--listen=a:1", "--until-idle", "2s", "--starter", "17"})
                .starter,
            17);
  EXPECT_THAT(ErrorOf({"rendezvous", "--listen=a:1", "--until-idle", "2s", "--starter", "me"}),
              StartsWith("--starter: expected a process id (found \"me\")"));
  EXPECT_THAT(ErrorOf({"rendezvous", "--listen=a:1", "--starter", "17"}),
              StartsWith("--starter: goes with --until-idle only"));
}

TEST(CliRendezvousTest, OneOfSeveralNamesItsEtcd) {
  const auto command = ParseAs<RendezvousCommand>(
      {"rendezvous", "--listen=h1:29400", "--etcd", "e1,e2:4001", "--etcd-prefix=/jobs",
       "--etcd-ca=ca.crt", "--etcd-user=ddprun", "--etcd-password-file=password",
       "--leader-validity=30s", "--advertise=head1"});
  EXPECT_THAT(command.etcd.endpoints, testing::ElementsAre("e1:2379", "e2:4001"));
  EXPECT_EQ(command.etcd.prefix, "/jobs");
  EXPECT_EQ(command.etcd.ca_file, "/home/user/ca.crt");
  EXPECT_EQ(command.etcd.user, "ddprun");
  EXPECT_EQ(command.etcd.password_file, "/home/user/password");
  EXPECT_EQ(command.etcd.leader_validity, seconds(30));
  EXPECT_EQ(command.etcd.advertised_host, "head1");
  EXPECT_EQ(command.etcd.advertised_port, 0);
  EXPECT_TRUE(ParseAs<RendezvousCommand>({"rendezvous", "--listen=a:1"}).etcd.endpoints.empty());
}

TEST(CliRendezvousTest, WhatDoesNotGoWithEtcdIsRefused) {
  const auto error = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"rendezvous", "--listen=h1:29400", "--etcd=e1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ErrorOf(arguments);
  };
  EXPECT_THAT(error({"--state-dir=st"}), HasSubstr("--state-dir: does not go with --etcd"));
  EXPECT_THAT(error({"--leader-validity=4s"}), HasSubstr("expected a duration from 5s to 5min"));
  EXPECT_THAT(error({"--leader-validity=6min"}), HasSubstr("expected a duration from 5s to 5min"));
  EXPECT_THAT(error({"--etcd-prefix=jobs/"}), HasSubstr("expected /NAME"));
  EXPECT_THAT(error({"--etcd-key=k"}), HasSubstr("--etcd-cert, --etcd-key: one needs the other"));
  EXPECT_THAT(error({"--etcd-cert=c", "--etcd-key=k"}), HasSubstr("needs --etcd-ca"));
  EXPECT_THAT(error({"--etcd-user=u"}), HasSubstr("one needs the other"));
  EXPECT_THAT(ErrorOf({"rendezvous", "--listen=unix:/s", "--etcd=e1"}),
              HasSubstr("expected --listen HOST:PORT"));
  EXPECT_THAT(ErrorOf({"rendezvous", "--listen=a:1", "--etcd=e1,"}),
              HasSubstr("expected HOST:PORT of etcd's members"));
  EXPECT_THAT(ErrorOf({"rendezvous", "--listen=a:1", "--leader-validity=9s"}),
              HasSubstr("--leader-validity: goes with --etcd only"));
}

TEST(CliRendezvousTest, PortZeroTakesAnyAndGoesToTheFile) {
  const auto command = ParseAs<RendezvousCommand>(
      {"rendezvous", "--port_file=port", "--state-dir", "st", "--listen=[::1]:0"});
  EXPECT_EQ(command.host, "::1");
  EXPECT_EQ(command.port, 0);
  EXPECT_EQ(command.port_file, "/home/user/port");
  EXPECT_EQ(command.state_dir, "/home/user/st");
  EXPECT_FALSE(command.insecure);
}

TEST(CliRendezvousTest, ListensOnAUnixSocket) {
  EXPECT_EQ(ParseAs<RendezvousCommand>({"rendezvous", "--listen", "unix:/run/r.sock"}).socket,
            "/run/r.sock");
  const auto command = ParseAs<RendezvousCommand>({"rendezvous", "--listen=unix:r.sock"});
  EXPECT_EQ(command.socket, "/home/user/r.sock");
  EXPECT_EQ(command.host, "");
  EXPECT_THAT(ErrorOf({"rendezvous", "--listen=unix:"}), StartsWith("--listen: expected"));
  EXPECT_THAT(ErrorOf({"rendezvous", "--listen=unix:/r", "--port-file=p"}),
              HasSubstr("--port-file: a Unix socket has no port"));
}

TEST(CliRendezvousTest, RefusesWhatItCannotListenOn) {
  EXPECT_THAT(ErrorOf({"rendezvous"}), StartsWith("--listen: expected HOST:PORT"));
  for (const char* const text : {"node1", ":29400", "node1:70000", "29400"}) {
    EXPECT_THAT(ErrorOf({"rendezvous", "--listen", text}), StartsWith("--listen: expected"));
  }
  EXPECT_THAT(ErrorOf({"rendezvous", "--listen", "a:1", "b"}),
              StartsWith("rendezvous: expected options only (found \"b\")"));
  EXPECT_THAT(ErrorOf({"rendezvous", "--lisen", "a:1"}), HasSubstr("did you mean --listen?"));
}

TEST(CliRendezvousTest, TakesCredentialsWithAbsolutePaths) {
  FakeHost host;
  host.variables["DDPRUN_TOKEN_FILE"] = "token";
  const auto command = Parse({"rendezvous", "--listen", "a:1", "--tls-ca", "/ca", "--tls-cert",
                              "c/x", "--tls-key", "k", "--munge", "--munge-socket", "s"},
                             host);
  const auto& credentials = std::get<RendezvousCommand>(command).credentials;
  EXPECT_EQ(credentials.token_file, host.CurrentDirectory() + "/token");
  EXPECT_EQ(credentials.tls_ca, "/ca");
  EXPECT_EQ(credentials.tls_cert, host.CurrentDirectory() + "/c/x");
  EXPECT_EQ(credentials.tls_key, host.CurrentDirectory() + "/k");
  EXPECT_EQ(credentials.munge_socket, host.CurrentDirectory() + "/s");
  EXPECT_TRUE(credentials.munge);
}

OperatorCommand OperatorOf(const std::vector<std::string>& arguments) {
  return ParseAs<OperatorCommand>(arguments);
}

TEST(CliOperatorTest, StatusIsOfAllJobsOfTheRendezvousOnThisHost) {
  const OperatorCommand command = OperatorOf({"status"});
  EXPECT_EQ(command.kind, OperatorCommand::Kind::kStatus);
  EXPECT_EQ(command.endpoint, "127.0.0.1:29400");
  EXPECT_EQ(command.job, "");
  EXPECT_EQ(command.timeout, std::chrono::seconds(10));
  EXPECT_FALSE(command.json || command.watch);
}

TEST(CliOperatorTest, FlagsMayFollowTheJob) {
  const OperatorCommand command = OperatorOf({"status", "train", "--json", "--rdzv-endpoint=head",
                                              "--timeout", "3s", "--token_file=t", "--insecure"});
  EXPECT_TRUE(command.insecure);
  EXPECT_FALSE(OperatorOf({"status"}).insecure);
  EXPECT_EQ(command.job, "train");
  EXPECT_EQ(command.endpoint, "head:29400");
  EXPECT_EQ(command.timeout, std::chrono::seconds(3));
  EXPECT_TRUE(command.json);
  EXPECT_THAT(command.credentials.token_file, EndsWith("/t"));
}

TEST(CliOperatorTest, StopDrainAndEvents) {
  EXPECT_TRUE(OperatorOf({"stop", "train"}).wait);
  EXPECT_FALSE(OperatorOf({"stop", "train", "--no-wait"}).wait);
  EXPECT_TRUE(OperatorOf({"stop", "--save", "train"}).save);
  EXPECT_EQ(OperatorOf({"drain", "n7"}).node, "n7");
  EXPECT_EQ(OperatorOf({"drain", "n7", "train"}).job, "train");
  EXPECT_TRUE(OperatorOf({"events", "-f"}).follow);
  EXPECT_EQ(OperatorOf({"events", "--since", "10min"}).since, std::chrono::minutes(10));
}

TEST(CliOperatorTest, WhatIsMissingOrTooMuchIsSaid) {
  EXPECT_EQ(ErrorOf({"stop"}), "stop: expected one job (found nothing); ddprun help stop");
  EXPECT_EQ(ErrorOf({"drain"}),
            "drain: expected a node, and a job or none (found nothing); ddprun help drain");
  EXPECT_THAT(ErrorOf({"status", "a", "b"}), StartsWith("status: expected one job or none"));
  EXPECT_THAT(ErrorOf({"stop", ""}), StartsWith("stop: expected the name of a job"));
  EXPECT_THAT(ErrorOf({"status", "--json", "--watch"}), StartsWith("--watch, --json"));
  EXPECT_THAT(ErrorOf({"status", "--timeout", "0"}), StartsWith("--timeout: expected a duration"));
  EXPECT_THAT(ErrorOf({"status", "--rdzv-endpoint", "h:0"}), StartsWith("--rdzv-endpoint"));
  EXPECT_THAT(ErrorOf({"events", "--save"}), StartsWith("--save: unknown flag"));
}

TEST(CliRendezvousTest, EventsAreKeptWhereTheStateIs) {
  const auto of = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"rendezvous", "--listen", "127.0.0.1:0"});
    return ParseAs<RendezvousCommand>(arguments).events_file;
  };
  EXPECT_EQ(of({}), "");
  EXPECT_EQ(of({"--state-dir", "/s"}), "/s/events.jsonl");
  EXPECT_EQ(of({"--state-dir", "/s", "--events-file", "/e"}), "/e");
  EXPECT_EQ(of({"--state-dir", "/s", "--until-idle", "1s"}), "");
}

TEST(CliRendezvousTest, APageIsServedWhereItIsAsked) {
  const auto of = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"rendezvous", "--listen", "a:1"});
    return ParseAs<RendezvousCommand>(arguments).http;
  };
  EXPECT_EQ(of({}).host, "");
  const HttpConfig http =
      of({"--http", "[::]:0", "--http-cert", "c.crt", "--http-key", "/c.key", "--http-host", "x",
          "--http-host", "y", "--http-read-token-file", "t", "--http-private"});
  EXPECT_EQ(http.host, "::");
  EXPECT_EQ(http.port, 0);
  EXPECT_EQ(http.certificate_file, "/home/user/c.crt");
  EXPECT_EQ(http.key_file, "/c.key");
  EXPECT_EQ(http.names, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(http.read_token_file, "/home/user/t");
  EXPECT_TRUE(http.is_private);
}

TEST(CliRendezvousTest, WhatGoesWithAPageNeedsOne) {
  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"rendezvous", "--listen", "a:1"});
    return ErrorOf(arguments);
  };
  EXPECT_THAT(error({"--http-private"}), StartsWith("--http-private: goes with --http only"));
  EXPECT_THAT(error({"--http", "here"}), StartsWith("--http: expected HOST:PORT"));
  EXPECT_THAT(error({"--http", "a:2", "--http-key", "k"}), HasSubstr("one needs the other"));
}

}  // namespace cli_rendezvous_test
}  // namespace ddprun
