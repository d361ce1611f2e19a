// Every way to end a job, on one node and on two, by the first rank and by the last. Checks the
// exact exit code of every ddprun and the exact root cause in the report, and that nothing is left
// running.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/support/job.h"

namespace ddprun {
namespace faults_test {

using nlohmann::json;
using testing::IsEmpty;

constexpr int kWorkers = 2;  // of a node

struct Case {
  int nodes;
  bool last_rank;  // else rank 0
};

class FaultsTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ / "reports"); }

  int nodes() const { return GetParam().nodes; }
  int victim() const { return GetParam().last_rank ? nodes() * kWorkers - 1 : 0; }
  std::size_t victims_node() const { return victim() / kWorkers; }

  // Starts a job whose victim does `action`. Node i has node rank i.
  void Start(const std::string& action, std::vector<std::string> flags = {},
             bool bad_command = false) {
    if (nodes() > 1) daemon_ = std::make_unique<Daemon>(folder_.path());
    for (int i = 0; i < nodes(); ++i) {
      std::vector<std::string> arguments = {"--nproc-per-node", std::to_string(kWorkers),
                                            "--report",         Report(i),
                                            "--stop-grace",     "1s",
                                            "--store",          "worker"};
      if (nodes() > 1) {
        arguments.insert(arguments.end(),
                         {"--rdzv-endpoint", daemon_->endpoint(), "--nnodes",
                          std::to_string(nodes()), "--rdzv-conf", "join_timeout=4"});
      }
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      if (bad_command && static_cast<std::size_t>(i) == victims_node()) {
        arguments.push_back("./missing/fault_worker");  // the same program, but not here
      } else {
        arguments.insert(arguments.end(),
                         {DDPRUN_BIN_DIR "/fault_worker", action, std::to_string(victim())});
      }
      job_.AddNode(arguments);
      if (i + 1 < nodes()) {
        ASSERT_TRUE(daemon_->program().WaitForErr("waiting for 1 node"));
      }
    }
  }

  void WaitUntilUp() {
    for (int rank = 0; rank < nodes() * kWorkers; ++rank) {
      ASSERT_TRUE(job_.node(rank / kWorkers).WaitForOut("[default" + std::to_string(rank) + "]:up"))
          << job_.node(rank / kWorkers).err();
    }
  }

  std::string Report(int node) const {
    return folder_.path() + "/reports/" + std::to_string(node) + ".json";
  }

  // Every agent ends with `code` and tells the same root cause.
  void ExpectAll(int code, const std::string& outcome, const std::string& kind,
                 const std::function<void(const json& cause)>& check) {
    for (int i = 0; i < nodes(); ++i) {
      SCOPED_TRACE("node " + std::to_string(i));
      EXPECT_EQ(job_.node(i).ExitCode(), code) << job_.node(i).err();
      const json report = json::parse(ReadFile(Report(i)), nullptr, false);
      ASSERT_TRUE(report.is_object()) << job_.node(i).err();
      EXPECT_EQ(report["outcome"], outcome);
      EXPECT_EQ(report["exit_code"], code);
      ASSERT_TRUE(report["root_cause"].is_object()) << report;
      EXPECT_EQ(report["root_cause"]["kind"], kind);
      check(report["root_cause"]);
    }
    EXPECT_THAT(job_.Survivors(), IsEmpty());
  }

  // The victim, and nobody else, is to blame.
  void ExpectVictimIsBlamed(const json& cause) {
    EXPECT_EQ(cause["rank"], victim());
    EXPECT_EQ(cause["local_rank"], victim() % kWorkers);
    EXPECT_EQ(cause["node_rank"], victims_node());
    EXPECT_EQ(cause["generation"], 0);
    for (const json& other : cause["victims"]) {
      EXPECT_NE(other["rank"], victim());
      EXPECT_EQ(other["error_kind"], "collective");
    }
  }

  TempDir folder_;
  std::unique_ptr<Daemon> daemon_;
  Job job_{folder_.path()};
};

TEST_P(FaultsTest, ExitOne) {
  Start("exit1");
  ExpectAll(1, "failed", "worker_failed", [this](const json& cause) {
    ExpectVictimIsBlamed(cause);
    EXPECT_EQ(cause["exit_code"], 1);
    EXPECT_EQ(cause["step"], 3);
    EXPECT_EQ(cause["stderr_tail"], json::array({"loss is NaN"}));
  });
}

TEST_P(FaultsTest, ExitZeroWhilePeersAreInACollective) {
  Start("exit0");
  ExpectAll(1, "failed", "worker_left_early", [this](const json& cause) {
    ExpectVictimIsBlamed(cause);
    EXPECT_EQ(cause["exit_code"], 0);
    EXPECT_FALSE(cause["victims"].empty());
  });
}

TEST_P(FaultsTest, Sigkill) {
  Start("kill");
  ExpectAll(137, "failed", "worker_failed", [this](const json& cause) {
    ExpectVictimIsBlamed(cause);
    EXPECT_EQ(cause["signal"], "SIGKILL");
  });
}

TEST_P(FaultsTest, Sigsegv) {
  Start("segv");
  ExpectAll(139, "failed", "worker_failed", [this](const json& cause) {
    ExpectVictimIsBlamed(cause);
    EXPECT_EQ(cause["signal"], "SIGSEGV");
  });
}

TEST_P(FaultsTest, Sigabrt) {
  Start("abrt");
  ExpectAll(134, "failed", "worker_failed", [this](const json& cause) {
    ExpectVictimIsBlamed(cause);
    EXPECT_EQ(cause["signal"], "SIGABRT");
  });
}

TEST_P(FaultsTest, ACommandThatCannotBeExecuted) {
  Start("none", {"--max-restarts", "3"}, true);
  ExpectAll(127, "failed", "worker_failed", [this](const json& cause) {
    EXPECT_EQ(cause["node_rank"], victims_node());
    EXPECT_EQ(cause["rank"], victims_node() * kWorkers) << "the node's first rank is started first";
    EXPECT_EQ(cause["error"], "./missing/fault_worker: no such file");
    EXPECT_EQ(cause["generation"], 0) << "it is not tried again";
  });
}

TEST_P(FaultsTest, AStoppedWorkerIsNotDeadAndTheAgentsSigtermEndsIt) {
  Start("stop");
  ASSERT_TRUE(job_.node(victims_node()).WaitForOut("stopping"));
  job_.node(victims_node()).Signal(SIGTERM);
  for (int i = 0; i < nodes(); ++i) {
    EXPECT_EQ(job_.node(i).ExitCode(), 143) << job_.node(i).err();
    EXPECT_EQ(json::parse(ReadFile(Report(i)))["outcome"], "left");
  }
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_P(FaultsTest, AgentSigterm) {
  Start("none");
  WaitUntilUp();
  job_.node(victims_node()).Signal(SIGTERM);
  for (int i = 0; i < nodes(); ++i) {
    SCOPED_TRACE("node " + std::to_string(i));
    EXPECT_EQ(job_.node(i).ExitCode(), 143) << job_.node(i).err();
    const json report = json::parse(ReadFile(Report(i)));
    EXPECT_EQ(report["outcome"], "left");
    if (static_cast<std::size_t>(i) == victims_node()) continue;  // it got the signal
    EXPECT_EQ(report["root_cause"]["kind"], "node_left");
    EXPECT_EQ(report["root_cause"]["node_rank"], victims_node());
  }
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_P(FaultsTest, AgentSigkill) {
  Start("none");
  WaitUntilUp();
  job_.node(victims_node()).Signal(SIGKILL);
  for (int i = 0; i < nodes(); ++i) {
    SCOPED_TRACE("node " + std::to_string(i));
    if (static_cast<std::size_t>(i) == victims_node()) {
      EXPECT_EQ(job_.node(i).ExitCode(), 137);
      continue;
    }
    // The other node waits for a new node, until its time limit.
    EXPECT_EQ(job_.node(i).ExitCode(), 69) << job_.node(i).err();
    const json report = json::parse(ReadFile(Report(i)));
    EXPECT_EQ(report["outcome"], "unreachable");
    EXPECT_EQ(report["root_cause"]["kind"], "node_lost");
    EXPECT_EQ(report["root_cause"]["node_rank"], victims_node());
    EXPECT_EQ(report["restarts"], 0);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!job_.Survivors().empty() && std::chrono::steady_clock::now() < deadline) continue;
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_P(FaultsTest, RendezvousUnreachableAtTheStart) {
  const std::string endpoint = [] {
    TempDir folder;
    return Daemon(folder.path()).endpoint();  // the daemon has ended: nobody listens there any more
  }();
  for (int i = 0; i < nodes(); ++i) {
    job_.AddNode({"--rdzv-backend", "ddprun", "--rdzv-endpoint", endpoint, "--nnodes",
                  std::to_string(nodes()), "--rdzv-conf", "connect_timeout=300ms", "--report",
                  Report(i), "true"});
  }
  for (int i = 0; i < nodes(); ++i) {
    EXPECT_EQ(job_.node(i).ExitCode(), 69) << job_.node(i).err();
    EXPECT_THAT(job_.node(i).err(), testing::HasSubstr(endpoint));
    EXPECT_EQ(json::parse(ReadFile(Report(i)))["outcome"], "unreachable");
  }
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.nodes == 1 ? "OneNode" : "TwoNodes") +
         (info.param.last_rank ? "LastRank" : "RankZero");
}

INSTANTIATE_TEST_SUITE_P(Everywhere, FaultsTest,
                         testing::Values(Case{1, false}, Case{1, true}, Case{2, false},
                                         Case{2, true}),
                         CaseName);

}  // namespace faults_test
}  // namespace ddprun
