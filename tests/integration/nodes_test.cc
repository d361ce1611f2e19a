// Several nodes on this host: real agents, a real rendezvous, processes that do not train.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/job.h"

namespace ddprun {
namespace nodes_test {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class NodesTest : public testing::Test {
 protected:
  std::vector<std::string> Flags(int nodes, int workers, std::vector<std::string> more,
                                 const std::string& script) {
    more.insert(more.end(), {"sh", "-c", script});
    return Command(nodes, workers, more);
  }
  // The command of a node. `more`: its other flags, and the workers' program.
  std::vector<std::string> Command(int nodes, int workers, const std::vector<std::string>& more) {
    std::vector<std::string> flags = {
        "--rdzv-endpoint", daemon_.endpoint(),    "--rdzv-id",        "job",
        "--nnodes",        std::to_string(nodes), "--nproc-per-node", std::to_string(workers)};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }

  TempDir folder_;
  Daemon daemon_{folder_.path()};
  Job job_{folder_.path()};
};

TEST_F(NodesTest, RanksAreConsecutiveOverNodesOfDifferentSizes) {
  const std::string script =
      "echo $RANK $LOCAL_RANK $GROUP_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE "
      "$GROUP_WORLD_SIZE $MASTER_ADDR $MASTER_PORT";
  job_.AddNode(Flags(2, 3, {}, script));
  job_.AddNode(Flags(2, 1, {}, script));
  EXPECT_EQ(job_.node(0).ExitCode(), 0) << job_.node(0).err();
  EXPECT_EQ(job_.node(1).ExitCode(), 0) << job_.node(1).err();
  std::map<int, std::string> by_rank;
  std::set<std::string> masters;
  for (const std::size_t node : {0, 1}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(job_.run(node) + "/attempt_0/by_rank")) {
      std::istringstream line(ReadFile(entry.path() / "stdout.log"));
      int rank, local_rank, node_rank, world, local_world, group_world;
      std::string address, port;
      line >> rank >> local_rank >> node_rank >> world >> local_world >> group_world >> address >>
          port;
      EXPECT_EQ(entry.path().filename(), std::to_string(rank));
      EXPECT_EQ(world, 4);
      EXPECT_EQ(group_world, 2);
      EXPECT_EQ(local_world, node == 0 ? 3 : 1);
      masters.insert(address + ":" + port);
      by_rank[rank] = std::to_string(node_rank) + "/" + std::to_string(local_rank);
    }
  }
  ASSERT_EQ(by_rank.size(), 4u);
  EXPECT_EQ(masters.size(), 1u) << "every worker is told the same master";
  // Both nodes have the same host name, so the node that joins first is the first node.
  const std::string order = by_rank[0] + " " + by_rank[1] + " " + by_rank[2] + " " + by_rank[3];
  EXPECT_THAT(order, testing::AnyOf("0/0 0/1 0/2 1/0", "0/0 1/0 1/1 1/2"));
}

TEST_F(NodesTest, MasterPortIsFreeForRankZero) {
  // Rank 0 listens on the port, and every rank connects to it.
  const std::string script =
      "exec /usr/bin/python3 -c '\n"
      "import os, socket\n"
      "address = (os.environ[\"MASTER_ADDR\"], int(os.environ[\"MASTER_PORT\"]))\n"
      "if os.environ[\"RANK\"] == \"0\":\n"
      "    s = socket.socket()\n"
      "    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
      "    s.bind((\"\", address[1]))\n"
      "    s.listen()\n"
      "    [s.accept() for _ in range(3)]\n"
      "else:\n"
      "    while socket.socket().connect_ex(address): pass\n"
      "'";
  job_.AddNode(Flags(2, 2, {"--store", "worker"}, script));
  job_.AddNode(Flags(2, 2, {"--store", "worker"}, script));
  EXPECT_EQ(job_.node(0).ExitCode(), 0) << job_.node(0).err();
  EXPECT_EQ(job_.node(1).ExitCode(), 0) << job_.node(1).err();
}

TEST_F(NodesTest, TheAgentOfRankZerosNodeListensOnMasterPortBeforeAnyWorkerStarts) {
  const std::string script =
      "exec /usr/bin/python3 -c '\n"
      "import os, socket\n"
      "assert os.environ[\"TORCHELASTIC_USE_AGENT_STORE\"] == \"True\"\n"
      "socket.create_connection((os.environ[\"MASTER_ADDR\"], int(os.environ[\"MASTER_PORT\"])))\n"
      "'";
  job_.AddNode(Flags(2, 2, {}, script));
  job_.AddNode(Flags(2, 2, {}, script));
  EXPECT_EQ(job_.node(0).ExitCode(), 0) << job_.node(0).err();
  EXPECT_EQ(job_.node(1).ExitCode(), 0) << job_.node(1).err();
}

TEST_F(NodesTest, AFailureOnOneNodeRestartsEveryNodeWithTheSameCount) {
  const std::string script =
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; [ $RANK = 3 ] && "
      "kill -KILL $$; exec sleep 1000";
  job_.AddNode(Flags(2, 2, {"--max-restarts", "3"}, script));
  job_.AddNode(Flags(2, 2, {"--max-restarts", "3"}, script));
  EXPECT_EQ(job_.node(0).ExitCode(), 0) << job_.node(0).err();
  EXPECT_EQ(job_.node(1).ExitCode(), 0) << job_.node(1).err();
  for (const std::size_t node : {0, 1}) {
    EXPECT_THAT(job_.node(node).err(), HasSubstr("restart 1 of 3"));
    EXPECT_TRUE(std::filesystem::exists(job_.run(node) + "/attempt_1"));
    EXPECT_FALSE(std::filesystem::exists(job_.run(node) + "/attempt_2"));
  }
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_F(NodesTest, EveryNodeNamesTheSameRootCauseAndGivesItsCode) {
  const std::string script =
      "[ $RANK = 2 ] && { echo my last words >&2; exit 42; }; exec sleep 1000";
  const std::vector<std::string> reports = {folder_ / "0.json", folder_ / "1.json"};
  job_.AddNode(Flags(2, 2, {"--report", reports[0]}, script));
  job_.AddNode(Flags(2, 2, {"--report", reports[1]}, script));
  for (const std::size_t node : {0, 1}) {
    EXPECT_EQ(job_.node(node).ExitCode(), 42) << job_.node(node).err();
    const auto cause = nlohmann::json::parse(ReadFile(reports[node]))["root_cause"];
    EXPECT_EQ(cause["rank"], 2);
    EXPECT_EQ(cause["local_rank"], 0);
    EXPECT_EQ(cause["node_rank"], 1);
    EXPECT_EQ(cause["exit_code"], 42);
    EXPECT_EQ(cause["stderr_tail"], nlohmann::json::array({"my last words"}));
  }
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_F(NodesTest, AWorkerThatFinishedEarlyWaitsForTheOtherNode) {
  const std::string release = folder_ / "release";
  const std::string script = "[ $GROUP_RANK = 0 ] && { touch " + folder_.path() +
                             "/first-is-done; exit 0; }; while [ ! -e " + release +
                             " ]; do sleep 0.01; done";
  Program& a = job_.AddNode(Flags(2, 1, {}, script));
  Program& b = job_.AddNode(Flags(2, 1, {}, script));
  ASSERT_TRUE(WaitForChange(folder_.path(),
                            [&] { return std::filesystem::exists(folder_ / "first-is-done"); }));
  std::ofstream(release) << "";
  EXPECT_EQ(a.ExitCode(), 0) << a.err();
  EXPECT_EQ(b.ExitCode(), 0) << b.err();
}

TEST_F(NodesTest, WhenANodeGetsSigtermTheWholeJobEnds) {
  const std::string script = "echo up; exec sleep 1000";
  Program& a = job_.AddNode(Flags(2, 1, {"--max-restarts", "3"}, script));
  Program& b = job_.AddNode(Flags(2, 1, {"--max-restarts", "3"}, script));
  ASSERT_TRUE(a.WaitForOut("up"));
  ASSERT_TRUE(b.WaitForOut("up"));
  a.Signal(SIGTERM);
  EXPECT_EQ(a.ExitCode(), 143) << a.err();
  EXPECT_EQ(b.ExitCode(), 143) << b.err();
  EXPECT_THAT(b.err(), HasSubstr("left (this agent got SIGTERM) and 1 node of at least 2 remain"));
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_F(NodesTest, AKilledAgentIsReplacedByANewOneAndNoRestartIsSpent) {
  const std::string script = "[ $DDPRUN_GENERATION = 1 ] && exit 0; echo up; exec sleep 1000";
  Program& a = job_.AddNode(Flags(2, 1, {}, script));
  Program& b = job_.AddNode(Flags(2, 1, {}, script));
  ASSERT_TRUE(a.WaitForOut("up"));
  ASSERT_TRUE(b.WaitForOut("up"));
  a.Signal(SIGKILL);
  Program& c = job_.AddNode(Flags(2, 1, {}, script));
  EXPECT_EQ(b.ExitCode(), 0) << b.err();
  EXPECT_EQ(c.ExitCode(), 0) << c.err();
  const bool first = b.err().find("generation 0: node 0 of 2") != std::string::npos;
  EXPECT_THAT(b.err(), HasSubstr(first ? "generation 1: node 0 of 2" : "generation 1: node 1 of 2"))
      << "who stays keeps its rank";
  EXPECT_THAT(b.err(), HasSubstr("restart 0 of 0"));
}

TEST_F(NodesTest, OneDaemonServesManyJobsAtOnce) {
  std::vector<std::unique_ptr<Program>> nodes;
  for (int job = 0; job < 4; ++job) {
    for (int node = 0; node < 2; ++node) {
      nodes.push_back(std::make_unique<Program>(std::vector<std::string>{
          DdprunPath(), "--log-dir", folder_ / "logs", "--rdzv-endpoint", daemon_.endpoint(),
          "--rdzv-id", "job" + std::to_string(job), "--nnodes", "2", "sh", "-c",
          "exit $((10 + " + std::to_string(job) + "))"}));
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(nodes[i]->ExitCode(), 10 + static_cast<int>(i / 2)) << nodes[i]->err();
  }
}

TEST_F(NodesTest, AJobNameCanBeUsedAgainAfterTheJob) {
  for (int run = 0; run < 3; ++run) {
    Job job(folder_ / std::to_string(run));
    job.AddNode(Flags(1, 1, {}, "echo $DDPRUN_GENERATION"));
    EXPECT_EQ(job.node(0).ExitCode(), 0) << job.node(0).err();
  }
}

TEST_F(NodesTest, AnAgentWithAnotherCommandLineIsRefusedAndTheJobGoesOn) {
  Program& a = job_.AddNode(Flags(2, 1, {}, "exit 0"));
  ASSERT_TRUE(daemon_.program().WaitForErr("waiting for 1 node"));
  Program& odd = job_.AddNode(Flags(3, 1, {}, "exit 0"));
  EXPECT_EQ(odd.ExitCode(), 77);
  EXPECT_THAT(odd.err(), HasSubstr("--nnodes is 3:3 here, but the job began with 2:2"));
  Program& b = job_.AddNode(Flags(2, 1, {}, "exit 0"));
  EXPECT_EQ(a.ExitCode(), 0) << a.err();
  EXPECT_EQ(b.ExitCode(), 0) << b.err();
}

TEST_F(NodesTest, WorkersGoOnWithoutTheDaemonUntilItsGraceIsOverAndThenTheAgentSaysSo) {
  const std::string script = "echo up; exec sleep 1000";
  Program& a = job_.AddNode(Flags(1, 1, {"--daemon-grace", "4s"}, script));
  ASSERT_TRUE(a.WaitForOut("up"));
  daemon_.program().Signal(SIGKILL);
  ASSERT_TRUE(a.WaitForErr("connecting again, and the workers go on meanwhile"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(a.ExitCode(), 69) << a.err();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3900))
      << "longer than the lease: nobody listens, so nobody gives its ranks away";
  EXPECT_THAT(a.err(), HasSubstr("cannot reach the rendezvous at " + daemon_.endpoint() +
                                 ": connection refused; gave up after 4 s"));
  EXPECT_THAT(a.err(), Not(HasSubstr("fenced")));
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

// A stopped daemon is silent, as a daemon behind a cut network is: no connection is refused.
TEST_F(NodesTest, ASilentDaemonIsNotWaitedForLongerThanTheLease) {
  const std::string script = "echo up; exec sleep 1000";
  Program& a = job_.AddNode(Flags(1, 1, {"--daemon-grace", "8s"}, script));
  ASSERT_TRUE(a.WaitForOut("up"));
  const auto begin = std::chrono::steady_clock::now();
  daemon_.program().Signal(SIGSTOP);
  ASSERT_TRUE(a.WaitForErr("fenced: the rendezvous at " + daemon_.endpoint() + " was not heard"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3)) << "the lease";
  EXPECT_EQ(a.ExitCode(), 69) << a.err();
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_F(NodesTest, TooFewNodesEndWithWhoIsThere) {
  Program& a = job_.AddNode(Flags(2, 1, {"--rdzv-conf", "join_timeout=1"}, "exit 0"));
  EXPECT_EQ(a.ExitCode(), 69);
  EXPECT_THAT(a.err(), HasSubstr("only 1 of at least 2 nodes joined within 1 s"));
}

TEST(RendezvousCommandTest, AnUnreachableRendezvousIsNamed) {
  TempDir folder;
  Program node({DdprunPath(), "--log-dir", folder.path(), "--rdzv-endpoint", "127.0.0.1:1",
                "--rdzv-backend", "ddprun", "--rdzv-conf", "connect_timeout=200ms", "true"});
  EXPECT_EQ(node.ExitCode(), 69);
  EXPECT_THAT(node.err(), HasSubstr("127.0.0.1:1"));
}

TEST(RendezvousCommandTest, AnAgentMayStartBeforeTheDaemon) {
  TempDir folder;
  std::string port;
  { port = std::to_string(Daemon(folder.path()).port()); }  // the port is free again
  Program node({DdprunPath(), "--log-dir", folder.path(), "--rdzv-endpoint", "127.0.0.1:" + port,
                "--rdzv-backend", "ddprun", "--rdzv-id", "early", "sh", "-c", "exit 7"});
  Program daemon({DdprunPath(), "rendezvous", "--listen", "127.0.0.1:" + port});
  EXPECT_EQ(node.ExitCode(), 7) << node.err();
}

TEST(RendezvousCommandTest, PrintsTheChosenPortAndEndsOnSigterm) {
  TempDir folder;
  Daemon daemon(folder.path());
  EXPECT_TRUE(daemon.program().WaitForOut("ddprun rendezvous: listening on " + daemon.endpoint()));
  daemon.program().Signal(SIGTERM);
  EXPECT_EQ(daemon.program().ExitCode(), 0);
}

TEST(RendezvousCommandTest, ASecondDaemonOnThePortIsRefused) {
  TempDir folder;
  Daemon daemon(folder.path());
  Program second({DdprunPath(), "rendezvous", "--listen", daemon.endpoint()});
  EXPECT_EQ(second.ExitCode(), 69);
  EXPECT_THAT(second.err(), HasSubstr("cannot listen on " + daemon.endpoint()));
}

TEST(RendezvousCommandTest, ListensBeyondThisHostOnlyWhenTold) {
  Program daemon({DdprunPath(), "rendezvous", "--listen", "0.0.0.0:0"});
  EXPECT_EQ(daemon.ExitCode(), 64);
  EXPECT_THAT(daemon.err(), HasSubstr("--insecure"));
}

TEST_F(NodesTest, ANodeThatFailsItsPreflightTellsThoseWhoWaitForIt) {
  const std::vector<std::string> more = {"--preflight", "--rdzv-conf", "join_timeout=2"};
  Program& waiting = job_.AddNode(Flags(2, 1, more, "exit 0"));
  std::vector<std::string> bad = more;
  bad.insert(bad.end(), {"--checkpoint-dir", "/proc/none"});
  Program& ineligible = job_.AddNode(Flags(2, 1, bad, "exit 0"));
  EXPECT_EQ(ineligible.ExitCode(), 69);
  EXPECT_THAT(ineligible.err(), HasSubstr("this node stays out: preflight: folders: /proc/none: "));
  EXPECT_EQ(waiting.ExitCode(), 69);
  EXPECT_THAT(waiting.err(), HasSubstr("(preflight: folders: /proc/none: "));
}

TEST_F(NodesTest, AnotherProgramInTheSameJobIsRefusedAndOtherArgumentsAreAWarning) {
  for (const char* const name : {"a.sh", "b.sh"}) {
    std::ofstream(folder_.path() + "/" + name) << "#!/bin/sh\nexit 0\n";
    std::filesystem::permissions(folder_.path() + "/" + name, std::filesystem::perms::owner_all);
  }
  const auto command = [&](const std::string& name, const std::string& argument) {
    return Command(2, 1, {folder_.path() + "/" + name, "--token", argument});
  };
  Program& first = job_.AddNode(command("a.sh", "geheim1"));
  ASSERT_TRUE(first.WaitForErr("waiting"));
  Program& other = job_.AddNode(command("b.sh", "geheim1"));
  EXPECT_EQ(other.ExitCode(), 77);
  EXPECT_THAT(other.err(),
              ContainsRegex("the workers here run b.sh, but those of .* in the same job "
                            "run a.sh"));
  Program& second = job_.AddNode(command("a.sh", "geheim2"));
  EXPECT_EQ(second.ExitCode(), 0);
  EXPECT_EQ(first.ExitCode(), 0);
  for (const Program* const node : {&first, &second}) {
    EXPECT_THAT(node->err(), HasSubstr("argument 2 of a.sh is not the same on "));
    EXPECT_THAT(node->err(), Not(HasSubstr("geheim")));
  }
}

}  // namespace nodes_test
}  // namespace ddprun
