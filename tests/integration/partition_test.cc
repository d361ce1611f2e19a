// Cuts in a real network: real agents, a real rendezvous, and workers that write time stamps while
// they live, in network namespaces. All processes read one clock, so the test can compare their
// times: every worker of a lost node has ended before the first worker of the next generation
// starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/capabilities.h"
#include "tests/support/job.h"
#include "tests/support/network.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace partition_test {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Direction = Network::Direction;

constexpr char kDefaultLease[] = "";  // 3 s, with a heartbeat every second
constexpr char kShortLease[] = "lease=1500ms,heartbeat=200ms";
constexpr milliseconds kShort{1500};
// Every cut up to lease − lease / 6 − heartbeat is survived. TCP sends lost data again 0.2 s, 0.6 s
// and 1.4 s after the loss, so the cut is shorter than that.
constexpr milliseconds kBriefCut{500};

// Not synchronization: how long the cut lasts is what is tested.
void Last(milliseconds time) { std::this_thread::sleep_for(time); }

nanoseconds Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

// A worker's life, as it wrote it down.
struct Life {
  std::string host;
  int generation = 0;
  int rank = 0;
  std::set<pid_t> pids;
  nanoseconds first{};
  nanoseconds last{};
};

class PartitionTest : public testing::Test {
 protected:
  void SetUp() override {
    DDPRUN_NEEDS(MissingForNetworks());
    std::string why_not;
    network_ = std::make_unique<Network>(3, &why_not);
    ASSERT_EQ(why_not, "");
    alive_ = folder_ / "alive";
    std::filesystem::create_directory(alive_);
    StartDaemon();
  }

  void TearDown() override {
    if (HasFailure() && !alive_.empty()) {
      if (daemon_ != nullptr) fprintf(stderr, "---- daemon\n%s", daemon_->err().c_str());
      for (std::size_t i = 0; i < agents_.size(); ++i) {
        if (agents_[i] != nullptr) {
          fprintf(stderr, "---- node%zu\n%s", i, agents_[i]->err().c_str());
        }
      }
      for (const Life& life : Lives()) {
        fprintf(stderr, "%s generation %d rank %d: %.3f to %.3f\n", life.host.c_str(),
                life.generation, life.rank, static_cast<double>(life.first.count()) / 1e9,
                static_cast<double>(life.last.count()) / 1e9);
      }
    }
  }

  void StartDaemon() {
    const std::string port_file = folder_ / "port";
    daemon_ = std::make_unique<Program>(network_->OnDaemon(
        {DdprunPath(), "rendezvous", "--insecure", "--listen", Network::DaemonAddress() + ":0",
         "--port-file", port_file, "--state-dir", folder_ / "state"}));
    ASSERT_TRUE(WaitForChange(folder_.path(), [&] { return !ReadFile(port_file).empty(); }));
    port_ = std::to_string(std::stoi(ReadFile(port_file)));
  }

  void StartAgent(int node, const std::string& nnodes, const std::string& conf) {
    std::vector<std::string> argv = {DdprunPath(),
                                     "--log-dir",
                                     folder_ / ("logs" + std::to_string(node)),
                                     "--rdzv-endpoint",
                                     Network::DaemonAddress() + ":" + port_,
                                     "--rdzv-id",
                                     "job",
                                     "--nnodes",
                                     nnodes,
                                     "--max-restarts",
                                     "0"};
    if (!conf.empty()) argv.insert(argv.end(), {"--rdzv-conf", conf});
    argv.insert(argv.end(), {ALIVE_WORKER, alive_});
    if (agents_.size() <= static_cast<std::size_t>(node)) agents_.resize(node + 1);
    agents_[node] =
        std::make_unique<Program>(network_->OnNode(node, argv), environment_, SourceDir());
  }

  // Nodes 0 and 1, both in generation 0, some heartbeats later.
  void StartTwo(const std::string& nnodes, const std::string& conf) {
    StartAgent(0, nnodes, conf);
    StartAgent(1, nnodes, conf);
    ASSERT_TRUE(WaitForLife(0, "node0"));
    ASSERT_TRUE(WaitForLife(0, "node1"));
    const milliseconds heartbeats(conf == kDefaultLease ? 1200 : 500);
    ASSERT_TRUE(WaitForLifeAfter(0, "node1", Now() + heartbeats));
  }

  Program& agent(int node) { return *agents_[node]; }
  Program& daemon() { return *daemon_; }
  Network& network() { return *network_; }
  // A file of a worker's life; "" if there is none.
  std::string FileOf(int generation, const std::string& host) const {
    const std::string start = host + ".g" + std::to_string(generation) + ".r";
    for (const auto& entry : std::filesystem::directory_iterator(alive_)) {
      if (entry.path().filename().string().starts_with(start)) return entry.path();
    }
    return "";
  }

  // Blocks until a worker of this generation lives there.
  bool WaitForLife(int generation, const std::string& host) {
    return WaitForChange(alive_, [&] {
      const std::string file = FileOf(generation, host);
      return !file.empty() && std::filesystem::file_size(file) > 0;
    });
  }
  // Blocks until the newest sign of life there is later than `time`.
  bool WaitForLifeAfter(int generation, const std::string& host, nanoseconds time) {
    return WaitForChange(alive_, [&] {
      const std::string file = FileOf(generation, host);
      return !file.empty() && Read(file).last > time;
    });
  }

  Life Read(const std::string& path) const {
    Life life;
    const std::string name = std::filesystem::path(path).filename();
    const std::size_t generation = name.rfind(".g");
    const std::size_t rank = name.rfind(".r");
    life.host = name.substr(0, generation);
    life.generation = std::stoi(name.substr(generation + 2));
    life.rank = std::stoi(name.substr(rank + 2));
    std::istringstream text(ReadFile(path));
    long pid = 0;
    long long time = 0;
    while (text >> pid >> time) {
      if (life.pids.empty()) life.first = nanoseconds(time);
      life.pids.insert(static_cast<pid_t>(pid));
      life.last = nanoseconds(time);
    }
    return life;
  }
  std::vector<Life> Lives() const {
    std::vector<Life> lives;
    for (const auto& entry : std::filesystem::directory_iterator(alive_)) {
      lives.push_back(Read(entry.path()));
    }
    return lives;
  }

  // The history of the job, from `ddprun events` and from the event file.
  std::vector<nlohmann::json> Events(const std::string& kind) {
    std::istringstream lines(ReadFile(folder_ / "state" + "/events.jsonl"));
    std::vector<nlohmann::json> events;
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
      if (event.is_object() && event["event"] == kind) events.push_back(std::move(event));
    }
    return events;
  }
  // The same check by the times of the events: the node had ended its workers before the next
  // generation started. All namespaces read one clock.
  void ExpectFencedBeforeStarted(const std::string& host, int generation) {
    std::string fenced;
    for (const auto& event : Events("fenced")) {
      if (event["host"] != host) continue;
      EXPECT_EQ(event["generation"], generation);
      EXPECT_EQ(fenced, "") << "told twice";
      fenced = event["node_time"];
    }
    std::string started;
    for (const auto& event : Events("started")) {
      if (event["generation"] > generation && started.empty()) started = event["time"];
    }
    ASSERT_NE(fenced, "") << host << " was not fenced";
    ASSERT_NE(started, "") << "no later generation was started";
    EXPECT_LT(fenced, started);  // ISO 8601, UTC
    printf("[ FIGURE   ] by the events: fenced %s, started %s\n", fenced.c_str(), started.c_str());
  }

  // The time from the last sign of life on `host` in `generation` to the first sign of life on any
  // host in the next generation. Negative: workers of both generations lived at the same time. Call
  // it after the job's end.
  milliseconds Gap(const std::string& host, int generation) {
    nanoseconds last{0};
    nanoseconds first = nanoseconds::max();
    for (const Life& life : Lives()) {
      if (life.pids.empty()) continue;  // ended before its first sign
      if (life.generation == generation && life.host == host) last = std::max(last, life.last);
      if (life.generation > generation) first = std::min(first, life.first);
    }
    EXPECT_GT(last.count(), 0) << host << " had no worker in generation " << generation;
    EXPECT_LT(first, nanoseconds::max()) << "no later generation began";
    return duration_cast<milliseconds>(first - last);
  }
  void Print(const std::string& what, milliseconds gap) {
    printf("[ FIGURE   ] %s: %ld ms from the last sign of life to the next generation's first\n",
           what.c_str(), static_cast<long>(gap.count()));
    RecordProperty("gap_ms", static_cast<int>(gap.count()));
  }
  void ExpectGap(const std::string& what, const std::string& host, int generation = 0) {
    const milliseconds gap = Gap(host, generation);
    Print(what, gap);
    EXPECT_GT(gap.count(), 0) << "two generations lived at the same time";
  }

  void EndAll() {
    std::ofstream(alive_ + ".go") << "";
    for (const auto& agent : agents_) {
      EXPECT_EQ(agent->ExitCode(), 0) << agent->err();
    }
    EXPECT_TRUE(daemon_->WaitForErr("succeeded: every worker exited with code 0"));
    EXPECT_TRUE(WaitForChange(folder_ / "state", [&] { return !Events("finished").empty(); }));
    EXPECT_THAT(ProcessesWith(environment_), IsEmpty());
  }

  // No restart: no node was lost, and each rank is still the same process.
  void ExpectUndisturbed(std::size_t nodes) {
    const std::vector<Life> lives = Lives();
    EXPECT_EQ(lives.size(), nodes);
    for (const Life& life : lives) {
      EXPECT_EQ(life.generation, 0) << life.host;
      EXPECT_EQ(life.pids.size(), 1u) << life.host;
    }
    EXPECT_THAT(daemon_->err(), Not(HasSubstr("lost node")));
    EXPECT_EQ(Events("started").size(), 1u);
    EXPECT_THAT(Events("fenced"), IsEmpty());
    EXPECT_THAT(Events("lost"), IsEmpty());
    for (const auto& agent : agents_) EXPECT_THAT(agent->err(), Not(HasSubstr("fenced")));
  }

  int FencedTimes(int node) const {
    const std::string text = agents_[node]->err();
    int times = 0;
    for (std::size_t at = 0; (at = text.find("fenced: ", at)) != std::string::npos; ++at) ++times;
    return times;
  }
  // No generation after this one: a node that comes back restarts nothing.
  void ExpectNewest(int generation) {
    for (const Life& life : Lives()) EXPECT_LE(life.generation, generation) << life.host;
    EXPECT_THAT(daemon_->err(),
                Not(HasSubstr("generation " + std::to_string(generation + 1) + ":")));
  }

  // A cut that is shorter than the lease. Then waits for one lease.
  void BriefCut(Direction direction, milliseconds cut, milliseconds lease) {
    network().Cut(1, direction);
    Last(cut);
    EXPECT_GT(network().Heal(), 0) << "nothing was cut";
    const nanoseconds healed = Now();
    ASSERT_TRUE(WaitForLifeAfter(0, "node0", healed + lease));
    ASSERT_TRUE(WaitForLifeAfter(0, "node1", healed + lease));
    EndAll();
    ExpectUndisturbed(2);
  }

  // A cut until the other node continues without node 1. Then node 1 joins again.
  void LongCut(const std::string& what, Direction direction, Network::Verdict verdict) {
    network().Cut(1, direction, verdict);
    ASSERT_TRUE(agent(1).WaitForErr("fenced: "));
    ASSERT_TRUE(WaitForLife(1, "node0"));
    EXPECT_GT(network().Heal(), 0) << "nothing was cut";
    EXPECT_THAT(daemon().err(), HasSubstr("lost node1: nothing heard for "));
    EXPECT_THAT(daemon().err(), HasSubstr("generation 1: 1 node, 1 workers"));
    ASSERT_TRUE(WaitForLife(2, "node1"));
    ASSERT_TRUE(WaitForLife(2, "node0"));
    EndAll();
    ExpectGap(what, "node1");
    ExpectFencedBeforeStarted("node1", 0);
    EXPECT_THAT(agent(1).err(), HasSubstr("was not heard for "));
    EXPECT_EQ(FencedTimes(1), 1);
    EXPECT_EQ(FencedTimes(0), 0);
    ExpectNewest(2);
    EXPECT_EQ(FileOf(1, "node1"), "") << "it was not in generation 1";
  }

  TempDir folder_;
  std::string alive_;
  std::unique_ptr<Network> network_;
  std::string port_;
  std::map<std::string, std::string> environment_ = {
      {"DDPRUN_TEST_MARK", "partition-" + std::to_string(getpid())}};
  std::unique_ptr<Program> daemon_;
  std::vector<std::unique_ptr<Program>> agents_;
};

// ---- shorter than the lease ----

TEST_F(PartitionTest, ABriefCutRestartsNothing) {
  StartTwo("2", kDefaultLease);
  BriefCut(Direction::kBoth, milliseconds(1200), milliseconds(3000));
}

TEST_F(PartitionTest, BriefLossOfHeartbeatsRestartsNothing) {
  StartTwo("2", kShortLease);
  BriefCut(Direction::kFromNode, kBriefCut, kShort);
}

TEST_F(PartitionTest, BriefLossOfAnswersRestartsNothing) {
  StartTwo("2", kShortLease);
  BriefCut(Direction::kToNode, kBriefCut, kShort);
}

// ---- longer than the lease ----

TEST_F(PartitionTest, ACutOffNodeHasNoWorkerWhenTheOthersGoOn) {
  StartTwo("1:2", kDefaultLease);
  LongCut("two-way, lease 3 s", Direction::kBoth, Network::Verdict::kDrop);
}

TEST_F(PartitionTest, ANodeWhoseHeartbeatsAreLostHasNoWorkerWhenTheOthersGoOn) {
  StartTwo("1:2", kShortLease);
  LongCut("node to daemon, lease 1.5 s", Direction::kFromNode, Network::Verdict::kDrop);
}

TEST_F(PartitionTest, ANodeThatHearsNoAnswersHasNoWorkerWhenTheOthersGoOn) {
  StartTwo("1:2", kShortLease);
  LongCut("daemon to node, lease 1.5 s", Direction::kToNode, Network::Verdict::kDrop);
}

TEST_F(PartitionTest, ASpareTakesThePlaceOfANodeThatIsCutOff) {
  StartTwo("2", kShortLease);
  StartAgent(2, "2", kShortLease);
  ASSERT_TRUE(agent(2).WaitForErr("this one waits as a spare"));
  network().Cut(0, Direction::kBoth);
  ASSERT_TRUE(WaitForLife(1, "node1"));
  ASSERT_TRUE(WaitForLife(1, "node2"));
  EXPECT_GT(network().Heal(), 0);
  // Node 0 is now the spare.
  ASSERT_TRUE(agent(0).WaitForErr("this one waits as a spare"));
  EndAll();
  ExpectGap("two-way with a spare, lease 1.5 s", "node0");
  ExpectFencedBeforeStarted("node0", 0);
  EXPECT_EQ(Read(FileOf(1, "node1")).rank, Read(FileOf(0, "node1")).rank)
      << "who stays has the rank he had";
  EXPECT_EQ(Read(FileOf(1, "node2")).rank, Read(FileOf(0, "node0")).rank);
  EXPECT_EQ(FencedTimes(0), 1);
  ExpectNewest(1);  // a spare that joins restarts nothing
}

// ---- nobody says good-bye ----

TEST_F(PartitionTest, ANodeThatLosesItsPowerIsLostByItsLease) {
  StartTwo("1:2", kShortLease);
  network().Unplug(1);
  network().PowerOff(1);
  const nanoseconds off = Now();
  ASSERT_TRUE(WaitForLife(1, "node0"));
  EXPECT_EQ(network().DaemonConnections(1), 1)
      << "no FIN and no RST came: the daemon's end is open";
  EXPECT_THAT(daemon().err(), HasSubstr("lost node1: nothing heard for 1.5 s"));
  agents_.pop_back();
  EndAll();
  // Not before the end of the lease: until then nobody can know that the node is lost.
  const milliseconds after = duration_cast<milliseconds>(Read(FileOf(1, "node0")).first - off);
  EXPECT_GT(after, kShort - milliseconds(400));
  ExpectGap("power off, lease 1.5 s", "node1");
}

// ---- while a generation forms ----

// Node 0 has joined and is cut off when node 1 completes the round. The Assignment to node 0, or
// its AssignmentAck, is lost.
TEST_F(PartitionTest, ABriefCutWhileAGenerationFormsOnlyDelaysIt) {
  StartAgent(0, "2", kDefaultLease);
  ASSERT_TRUE(daemon().WaitForErr("node0 joined"));
  network().Cut(0, Direction::kBoth);
  StartAgent(1, "2", kDefaultLease);
  ASSERT_TRUE(daemon().WaitForErr("generation 0: 2 nodes"));
  EXPECT_GT(network().Heal(), 0);
  ASSERT_TRUE(WaitForLife(0, "node0"));
  ASSERT_TRUE(WaitForLife(0, "node1"));
  EndAll();
  ExpectUndisturbed(2);
}

class FormingTest : public PartitionTest, public testing::WithParamInterface<Direction> {};

TEST_P(FormingTest, ANodeThatIsCutOffWhileItsGenerationFormsHoldsUpTheOthersForItsLease) {
  StartAgent(0, "2", kDefaultLease);
  ASSERT_TRUE(daemon().WaitForErr("node0 joined"));
  network().Cut(0, GetParam());
  StartAgent(1, "2", kDefaultLease);
  ASSERT_TRUE(daemon().WaitForErr("generation 0: 2 nodes"));
  ASSERT_TRUE(daemon().WaitForErr("lost node0: nothing heard for 3 s"));
  EXPECT_GT(network().Heal(), 0);
  // No worker started in generation 0, and its number is not used again.
  ASSERT_TRUE(WaitForLife(1, "node0"));
  ASSERT_TRUE(WaitForLife(1, "node1"));
  EndAll();
  EXPECT_EQ(FileOf(0, "node0"), "");
  EXPECT_EQ(FileOf(0, "node1"), "");
  EXPECT_EQ(FencedTimes(1), 0);
  ExpectNewest(1);
}

INSTANTIATE_TEST_SUITE_P(Cut, FormingTest,
                         testing::Values(Direction::kFromNode, Direction::kToNode),
                         [](const auto& param) {
                           return param.param == Direction::kFromNode ? "PreparedIsLost"
                                                                      : "AssignmentIsLost";
                         });

// ---- firewalls ----

TEST_F(PartitionTest, AFirewallThatProhibitsIsSilence) {
  StartTwo("1:2", kShortLease);
  LongCut("REJECT, prohibited, lease 1.5 s", Direction::kBoth, Network::Verdict::kReject);
}

// This is what a plain REJECT does. It does not end a TCP connection, so the node sees silence.
// Only an attempt to connect would be refused, and the node makes none before the end of its lease.
TEST_F(PartitionTest, AFirewallThatSaysPortUnreachableIsSilenceForASessionThatIsThere) {
  StartTwo("1:2", kShortLease);
  LongCut("REJECT, port unreachable, lease 1.5 s", Direction::kBoth, Network::Verdict::kRejectPort);
}

// The one case that leases do not cover (docs/internals/leases.md): a reset in the daemon's name
// looks like a dead daemon. While the firewall sends resets, the node's workers continue alone.
// They end when the firewall ends, and the old generation has no further effect.
TEST_F(PartitionTest, AFirewallThatAnswersForTheDaemonHidesTheLossUntilItIsGone) {
  StartTwo("1:2", kShortLease);
  network().Cut(1, Direction::kBoth, Network::Verdict::kRejectReset);
  ASSERT_TRUE(WaitForLife(1, "node0"));
  EXPECT_THAT(daemon().err(), HasSubstr("lost node1: nothing heard for 1.5 s"));
  EXPECT_THAT(agent(1).err(), HasSubstr("connecting again, and the workers go on meanwhile"));
  EXPECT_THAT(agent(1).err(), Not(HasSubstr("fenced")));
  EXPECT_GT(network().Heal(), 0);
  ASSERT_TRUE(agent(1).WaitForErr("fenced: "));
  ASSERT_TRUE(WaitForLife(2, "node1"));
  EndAll();
  Print("REJECT by tcp reset (not covered), lease 1.5 s", Gap("node1", 0));
  nanoseconds last = Read(FileOf(0, "node1")).last;
  EXPECT_LT(last, Read(FileOf(2, "node1")).first);
  EXPECT_LT(last, Read(FileOf(2, "node0")).first);
}

// ---- an agent that cannot act ----

TEST_F(PartitionTest, TheGuardianEndsTheWorkersOfAnAgentThatIsStopped) {
  StartTwo("1:2", kShortLease);
  agent(1).Signal(SIGSTOP);
  ASSERT_TRUE(WaitForLife(1, "node0"));
  EXPECT_THAT(daemon().err(), HasSubstr("lost node1: nothing heard for 1.5 s"));
  agent(1).Signal(SIGCONT);
  ASSERT_TRUE(WaitForLife(2, "node1"));
  EndAll();
  EXPECT_EQ(FencedTimes(1), 1);
  EXPECT_THAT(agent(1).err(),
              HasSubstr("has not renewed its lease in time; its 1 workers are killed"));
  ExpectNewest(2);
  ExpectGap("stopped agent, lease 1.5 s", "node1");  // agent 1 learns of it only afterwards
}

}  // namespace partition_test
}  // namespace ddprun
