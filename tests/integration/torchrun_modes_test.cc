// Nodes find each other as under torchrun: --rdzv-backend=c10d, where an agent starts the
// rendezvous, and static mode, where the command line gives the ranks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "launcher/os/local_address.h"
#include "tests/support/job.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace torchrun_modes_test {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

bool CanBind(int port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

// A free port whose next port is free, too. The test does not hold them, because it tests who takes
// them first. They are below the range from which the kernel gives ports to connections: there, a
// connection of any program on this machine could take them.
int TwoFreePorts() {
  static std::minstd_rand random(getpid());
  std::uniform_int_distribution<int> below(10'000, 32'000);
  for (;;) {
    const int port = below(random);
    if (CanBind(port) && CanBind(port + 1)) return port;
  }
}

// Waits until no process of the job is left, including the rendezvous that the job started.
std::vector<pid_t> SurvivorsInTheEnd(const Job& job) {
  for (const pid_t pid : job.Survivors()) {
    const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    pollfd ended{process.get(), POLLIN, 0};
    if (process.valid()) poll(&ended, 1, 10'000);
  }
  return job.Survivors();
}

// The daemons that agents of the job have started.
std::vector<pid_t> Rendezvous(const Job& job) {
  std::vector<pid_t> found = job.Survivors();
  std::erase_if(found, [](pid_t pid) {
    const std::string words = ReadFile("/proc/" + std::to_string(pid) + "/cmdline");
    return words.rfind(std::string("ddprun\0rendezvous\0", 18), 0) != 0;
  });
  return found;
}

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class C10dTest : public testing::Test {
 protected:
  std::vector<std::string> Flags(const std::string& nodes, const std::string& script,
                                 std::vector<std::string> more = {}) const {
    std::vector<std::string> flags = {"--rdzv-backend=c10d", "--rdzv-endpoint=" + endpoint_,
                                      "--nnodes=" + nodes};
    flags.insert(flags.end(), more.begin(), more.end());
    flags.insert(flags.end(), {"sh", "-c", script});
    return flags;
  }

  TempDir folder_;
  std::string endpoint_ = "127.0.0.1:" + std::to_string(TwoFreePorts());
};

TEST_F(C10dTest, FourAgentsThatStartTogetherFindOneRendezvousAndLeaveNothing) {
  for (int run = 0; run < 20; ++run) {
    endpoint_ = "127.0.0.1:" + std::to_string(TwoFreePorts());
    Job job(folder_ / std::to_string(run));
    for (int node = 0; node < 4; ++node) job.AddNode(Flags("4", "echo rank $RANK"));
    std::set<std::string> ranks;
    int started = 0;
    for (int node = 0; node < 4; ++node) {
      EXPECT_EQ(job.node(node).ExitCode(), 0) << "run " << run << ": " << job.node(node).err();
      ranks.insert(job.node(node).out());
      started += job.node(node).err().find("starting the rendezvous") != std::string::npos;
    }
    EXPECT_EQ(ranks.size(), 4u) << "run " << run;
    EXPECT_EQ(started, 1) << "run " << run;
    EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty()) << "run " << run;
  }
}

TEST_F(C10dTest, AJobRightAfterAnotherMeetsAtTheSameEndpoint) {
  Job job(folder_.path());
  for (int run = 0; run < 8; ++run) {
    Program& a = job.AddNode(Flags("2", "exit 0"));
    Program& b = job.AddNode(Flags("2", "exit 0"));
    EXPECT_EQ(a.ExitCode(), 0) << "run " << run << ": " << a.err();
    EXPECT_EQ(b.ExitCode(), 0) << "run " << run << ": " << b.err();
  }
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
}

TEST_F(C10dTest, TheRendezvousOutlivesTheAgentThatStartedIt) {
  const std::string script = "[ $DDPRUN_GENERATION = 1 ] && exit 0; echo up; exec sleep 1000";
  Job job(folder_.path());
  Program& starter = job.AddNode(Flags("2", script));
  ASSERT_TRUE(starter.WaitForErr("starting the rendezvous"));
  ASSERT_TRUE(WaitForChange(job.run(0), [&] {
    return ReadFile(job.run(0) + "/rendezvous.log").find("waiting for 1 node") != std::string::npos;
  }));
  Program& second = job.AddNode(Flags("2", script));
  ASSERT_TRUE(second.WaitForOut("up"));
  starter.Signal(SIGKILL);
  Program& third = job.AddNode(Flags("2", script));
  EXPECT_EQ(second.ExitCode(), 0) << second.err();
  EXPECT_EQ(third.ExitCode(), 0) << third.err();
  EXPECT_THAT(second.err(), Not(HasSubstr("starting the rendezvous")));
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
}

// The rendezvous keeps its jobs in the folder of its endpoint. systemd-tmpfiles leaves this folder
// alone while the rendezvous runs.
TEST_F(C10dTest, ARendezvousThatIsKilledIsStartedAgainAndNothingRestarts) {
  const std::string script = "echo up; while [ ! -e " + folder_ / "go" + " ]; do sleep 0.05; done";
  Job job(folder_.path());
  Program& node = job.AddNode(Flags("1", script));
  ASSERT_TRUE(node.WaitForOut("up"));
  const std::string state =
      TestStateHome() + "/localhost:" + endpoint_.substr(endpoint_.find(':') + 1);
  EXPECT_TRUE(std::filesystem::exists(state + "/journal"));
  const UniqueFd cleaner(open(state.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(flock(cleaner.get(), LOCK_EX | LOCK_NB), -1) << "it may be cleaned up";
  ASSERT_EQ(Rendezvous(job).size(), 1u);
  kill(Rendezvous(job).front(), SIGKILL);
  ASSERT_TRUE(WaitForChange(job.run(0), [&] {
    const std::string log = ReadFile(job.run(0) + "/rendezvous.log");
    return log.find("is back within its lease") != std::string::npos;
  })) << node.err();
  std::ofstream(folder_ / "go") << "";
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_THAT(node.err(), Not(HasSubstr("generation 1")));
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(state));
}

TEST_F(C10dTest, AStateHomeThatIsNotOursIsSaidAtOnce) {
  ASSERT_EQ(symlink(folder_.path().c_str(), (folder_ / "home").c_str()), 0);
  Job job(folder_.path(), {{"DDPRUN_STATE_HOME", folder_ / "home"}});
  Program& node = job.AddNode(Flags("1", "exit 0"));
  EXPECT_EQ(node.ExitCode(), 64);
  EXPECT_THAT(node.err(), HasSubstr(folder_ / "home" + " is a symbolic link"));
  EXPECT_THAT(node.err(), HasSubstr("Set DDPRUN_STATE_HOME to another folder"));
}

// The next rendezvous would end in the same way, so no agent waits.
TEST_F(C10dTest, ARendezvousThatCannotStartEndsTheAgentWithItsReason) {
  const std::string port = endpoint_.substr(endpoint_.rfind(':') + 1);
  const std::string home = folder_ / "home";
  ASSERT_EQ(::mkdir(home.c_str(), 0700), 0);
  const std::string in_the_way = home + "/localhost:" + port;
  std::ofstream(in_the_way) << "not a folder";
  Job job(folder_.path(), {{"DDPRUN_STATE_HOME", home}});
  Program& node = job.AddNode(Flags("1", "exit 0"));
  EXPECT_EQ(node.ExitCode(), 69);
  const std::string why = "the rendezvous that this node started on " + endpoint_ +
                          " ended with exit code 64; its log is " + job.run(0) +
                          "/rendezvous.log and ends with: ";
  EXPECT_THAT(node.err(), HasSubstr(why));
  EXPECT_THAT(node.err(), HasSubstr("cannot open the folder " + in_the_way));
  EXPECT_THAT(node.err(), HasSubstr("unreachable: the rendezvous that this node started"));
}

TEST_F(C10dTest, ARendezvousThatTheUserStartedIsUsedAndLeftRunning) {
  Daemon daemon(folder_.path());
  endpoint_ = daemon.endpoint();
  Job job(folder_.path());
  job.AddNode(Flags("2", "exit 0"));
  job.AddNode(Flags("2", "exit 0"));
  for (const int node : {0, 1}) {
    EXPECT_EQ(job.node(node).ExitCode(), 0) << job.node(node).err();
    EXPECT_FALSE(std::filesystem::exists(job.run(node) + "/rendezvous.log"));
  }
  daemon.program().Signal(SIGTERM);
  EXPECT_EQ(daemon.program().ExitCode(), 0);
}

TEST_F(C10dTest, NnodesFromOneToTwoStartsWithOne) {
  Job job(folder_.path());
  job.AddNode(Flags("1:2", "echo $WORLD_SIZE", {"--rdzv-conf=last_call_timeout=0"}));
  EXPECT_EQ(job.node(0).ExitCode(), 0) << job.node(0).err();
  EXPECT_EQ(job.node(0).out(), "[default0]:1\n");
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
}

TEST_F(C10dTest, BeyondLoopbackTheAgentThatHostsTheRendezvousNeedsInsecure) {
  endpoint_ = OutsideAddress().value_or(HostName()) + ":" + std::to_string(TwoFreePorts());
  Job job(folder_.path());
  Program& refused = job.AddNode(Flags("1", "exit 0"));
  EXPECT_EQ(refused.ExitCode(), 64);
  EXPECT_THAT(refused.err(), HasSubstr("is to run on this node, at " + endpoint_));
  EXPECT_THAT(refused.err(), HasSubstr("say --insecure where the network is trusted"));
  Program& open = job.AddNode(Flags("1", "exit 0", {"--insecure"}));
  EXPECT_EQ(open.ExitCode(), 0) << open.err();
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
}

TEST_F(C10dTest, PortZeroIsOneNodeAlone) {
  endpoint_ = "localhost:0";
  Job job(folder_.path());
  job.AddNode(Flags("1", "echo $WORLD_SIZE"));
  EXPECT_EQ(job.node(0).ExitCode(), 0) << job.node(0).err();
  EXPECT_THAT(job.node(0).err(), Not(HasSubstr("starting the rendezvous")));
}

// The scripts of pytorch/examples call torchrun like this: an endpoint, and no backend.
class NoBackendTest : public testing::Test {
 protected:
  std::vector<std::string> Flags(const std::string& nodes, const std::string& script,
                                 std::vector<std::string> more = {}) const {
    std::vector<std::string> flags = {"--nnodes=" + nodes, "--rdzv_id=101",
                                      "--rdzv_endpoint=" + endpoint_};
    flags.insert(flags.end(), more.begin(), more.end());
    flags.insert(flags.end(), {"sh", "-c", script});
    return flags;
  }

  TempDir folder_;
  std::string endpoint_ = "localhost:" + std::to_string(TwoFreePorts());
};

// Seen red when the agent waited for the endpoint.
TEST_F(NoBackendTest, OneNodeStartsAtOnce) {
  Job job(folder_.path());
  Program& node = job.AddNode(
      Flags("1", "echo $RANK", {"--nproc_per_node=2", "--rdzv-conf=connect_timeout=60"}));
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_THAT(Lines(node.out()), testing::UnorderedElementsAre("[default0]:0", "[default1]:1"));
  EXPECT_THAT(node.err(), HasSubstr("starting the rendezvous"));
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
}

TEST_F(NoBackendTest, TwoNodesMeetAtTheEndpoint) {
  Job job(folder_.path());
  for (int node = 0; node < 2; ++node) job.AddNode(Flags("2", "echo $WORLD_SIZE"));
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(job.node(node).ExitCode(), 0) << job.node(node).err();
    EXPECT_THAT(job.node(node).out(), HasSubstr("]:2\n"));
  }
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
}

// The user starts the rendezvous again, with its journal. So its port must stay free.
TEST_F(NoBackendTest, ARendezvousOfTheUserThatIsKilledIsLeftToItsUser) {
  Daemon daemon(folder_.path());
  endpoint_ = daemon.endpoint();
  Job job(folder_.path());
  Program& node = job.AddNode(Flags(
      "1", "echo up; while [ ! -e " + folder_ / "go" + " ]; do sleep 0.05; done", {"--verbose"}));
  ASSERT_TRUE(node.WaitForOut("up"));
  daemon.Kill();
  ASSERT_TRUE(node.WaitForErr("connection refused"));
  daemon.Start();
  std::ofstream(folder_ / "go") << "";
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_THAT(node.err(), Not(HasSubstr("starting the rendezvous")));
  EXPECT_THAT(node.err(), HasSubstr("connected to the rendezvous"));
}

TEST_F(NoBackendTest, WithoutInsecureAnAddressBeyondLoopbackIsWaitedFor) {
  endpoint_ = OutsideAddress().value_or(HostName()) + ":" + std::to_string(TwoFreePorts());
  Job job(folder_.path());
  Program& node = job.AddNode(Flags("1", "exit 0", {"--rdzv-conf=connect_timeout=1500ms"}));
  EXPECT_EQ(node.ExitCode(), 69);
  EXPECT_THAT(node.err(),
              HasSubstr("waiting for the rendezvous at " + endpoint_ + ", at most 1.5 s"));
  Program& open = job.AddNode(Flags("1", "exit 0", {"--insecure"}));
  EXPECT_EQ(open.ExitCode(), 0) << open.err();
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
}

class StaticTest : public testing::Test {
 protected:
  std::vector<std::string> Flags(int node_rank, const std::string& script,
                                 std::vector<std::string> more = {}) const {
    std::vector<std::string> flags = {"--nnodes=2", "--node_rank=" + std::to_string(node_rank),
                                      "--master_addr=127.0.0.1",
                                      "--master_port=" + std::to_string(port_)};
    flags.insert(flags.end(), more.begin(), more.end());
    flags.insert(flags.end(), {"sh", "-c", script});
    return flags;
  }

  TempDir folder_;
  Job job_{folder_.path()};
  const int port_ = TwoFreePorts();
};

TEST_F(StaticTest, RanksFollowNodeRankAndEveryWorkerGetsTheGivenMaster) {
  const std::string script = "echo $RANK $GROUP_RANK $MASTER_ADDR:$MASTER_PORT";
  job_.AddNode(Flags(1, script, {"--nproc_per_node=1"}));
  job_.AddNode(Flags(0, script, {"--nproc_per_node=2"}));
  EXPECT_EQ(job_.node(0).ExitCode(), 0) << job_.node(0).err();
  EXPECT_EQ(job_.node(1).ExitCode(), 0) << job_.node(1).err();
  const std::string master = " 127.0.0.1:" + std::to_string(port_);
  EXPECT_THAT(Lines(job_.node(0).out()), ElementsAre("[default2]:2 1" + master));
  EXPECT_THAT(Lines(job_.node(1).out()),
              testing::UnorderedElementsAre("[default0]:0 0" + master, "[default1]:1 0" + master));
  EXPECT_THAT(SurvivorsInTheEnd(job_), IsEmpty());
}

TEST_F(StaticTest, TheMasterStaysWhereItIsAfterARestart) {
  const std::string script =
      "echo $MASTER_PORT $TORCHELASTIC_RESTART_COUNT; "
      "[ $RANK$TORCHELASTIC_RESTART_COUNT = 10 ] && exit 3; "
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 1000";
  job_.AddNode(Flags(0, script, {"--max_restarts=1"}));
  job_.AddNode(Flags(1, script, {"--max_restarts=1"}));
  EXPECT_EQ(job_.node(0).ExitCode(), 0) << job_.node(0).err();
  EXPECT_EQ(job_.node(1).ExitCode(), 0) << job_.node(1).err();
  const std::string port = std::to_string(port_);
  EXPECT_THAT(Lines(job_.node(1).out()),
              ElementsAre("[default1]:" + port + " 0", "[default1]:" + port + " 1"));
}

TEST_F(StaticTest, TheSecondAgentWithANodeRankIsRefusedAndTheJobGoesOn) {
  Program& first = job_.AddNode(Flags(0, "exit 0"));
  ASSERT_TRUE(first.WaitForErr("starting the rendezvous"));
  ASSERT_TRUE(WaitForChange(job_.run(0), [&] {
    return ReadFile(job_.run(0) + "/rendezvous.log").find("waiting for 1 node") !=
           std::string::npos;
  }));
  Program& second = job_.AddNode(Flags(0, "exit 0"));
  EXPECT_EQ(second.ExitCode(), 77);
  EXPECT_THAT(second.err(), HasSubstr("node rank 0 is taken by " + HostName()));
  Program& other = job_.AddNode(Flags(1, "exit 0"));
  EXPECT_EQ(first.ExitCode(), 0) << first.err();
  EXPECT_EQ(other.ExitCode(), 0) << other.err();
}

TEST_F(StaticTest, OneNodeGetsTheGivenPortWithoutARendezvousOfItsOwn) {
  Program node({DdprunPath(), "--log-dir", folder_.path(), "--master_port=" + std::to_string(port_),
                "sh", "-c", "echo $MASTER_ADDR:$MASTER_PORT"});
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_EQ(node.out(), "[default0]:127.0.0.1:" + std::to_string(port_) + "\n");
  EXPECT_THAT(node.err(), Not(HasSubstr("starting the rendezvous")));
}

TEST_F(StaticTest, TheEndpointOfTheStaticBackendIsTheMasterOfEveryWorker) {
  const std::string endpoint = "127.0.0.1:" + std::to_string(port_);
  for (const std::string rank : {"1", "0"}) {
    job_.AddNode({"--nnodes=2", "--node_rank=" + rank, "--rdzv_backend=static",
                  "--rdzv_endpoint=" + endpoint, "--master_port=1", "sh", "-c",
                  "echo $MASTER_ADDR:$MASTER_PORT"});
  }
  for (const int node : {0, 1}) {
    EXPECT_EQ(job_.node(node).ExitCode(), 0) << job_.node(node).err();
    EXPECT_THAT(job_.node(node).out(), HasSubstr("]:" + endpoint + "\n"));
  }
  EXPECT_THAT(SurvivorsInTheEnd(job_), IsEmpty());
}

TEST_F(StaticTest, AnAgentThatCannotReachTheRendezvousNamesBothPorts) {
  const UniqueFd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_ + 1);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(other.get(), 8), 0);
  Program& node = job_.AddNode(Flags(0, "exit 0", {"--rdzv-conf=connect_timeout=300ms"}));
  EXPECT_EQ(node.ExitCode(), 69);
  EXPECT_THAT(node.err(), HasSubstr("every node must reach two ports, " + std::to_string(port_) +
                                    " (MASTER_PORT) and " + std::to_string(port_ + 1)));
}

TEST(RolesTest, RanksAreCountedWithinARoleInTheOrderOfNodeRanks) {
  TempDir folder;
  Daemon daemon(folder.path());
  Job job(folder.path());
  const std::string script = "echo $RANK $WORLD_SIZE $ROLE_RANK $ROLE_WORLD_SIZE";
  const std::vector<std::string> roles = {"trainer", "evaluator", "trainer"};
  for (std::size_t node = 0; node < roles.size(); ++node) {
    job.AddNode({"--rdzv-endpoint=" + daemon.endpoint(), "--nnodes=3",
                 "--node-rank=" + std::to_string(node), "--role=" + roles[node],
                 "--nproc-per-node=" + std::to_string(node + 1), "sh", "-c", script});
  }
  for (int node = 0; node < 3; ++node) {
    ASSERT_EQ(job.node(node).ExitCode(), 0) << job.node(node).err();
  }
  EXPECT_THAT(Lines(job.node(0).out()), ElementsAre("[trainer0]:0 6 0 4"));
  EXPECT_THAT(Lines(job.node(1).out()),
              testing::UnorderedElementsAre("[evaluator1]:1 6 0 2", "[evaluator2]:2 6 1 2"));
  EXPECT_THAT(Lines(job.node(2).out()),
              testing::UnorderedElementsAre("[trainer3]:3 6 1 4", "[trainer4]:4 6 2 4",
                                            "[trainer5]:5 6 3 4"));
}

TEST(RunPathTest, RunsAScriptOfAnyNameAsMainWithItsArguments) {
  TempDir folder;
  std::ofstream(folder / "script") << "import sys; print(__name__, sys.argv[1:])\n";
  Program node(
      {DdprunPath(), "--log-dir", folder.path(), "--run-path", folder / "script", "-a", "b"});
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_EQ(node.out(), "[default0]:__main__ ['-a', 'b']\n");
}

TEST(VirtualLocalRankTest, EveryWorkerIsLocalRankZeroOfItsOwnGpu) {
  TempDir folder;
  Program node({DdprunPath(), "--log-dir", folder.path(), "--virtual-local-rank",
                "--nproc-per-node=2", "sh", "-c", "echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES"},
               {{"CUDA_VISIBLE_DEVICES", "5,7"}});
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_THAT(Lines(node.out()), testing::UnorderedElementsAre("[default0]:0 5", "[default1]:0 7"));
}

TEST(UntilIdleTest, ARendezvousThatNobodyUsesEnds) {
  TempDir folder;
  Program daemon({DdprunPath(), "rendezvous", "--listen=127.0.0.1:0", "--until-idle=50ms"});
  EXPECT_EQ(daemon.ExitCode(), 0) << daemon.err();
}

// The rendezvous starts so slowly that the job of its agent has already ended.
TEST(UntilIdleTest, ARendezvousWhoseStarterIsGoneWaitsForNobody) {
  Program starter({"true"});
  EXPECT_EQ(starter.ExitCode(), 0);
  Program daemon({DdprunPath(), "rendezvous", "--listen=127.0.0.1:0", "--until-idle=1h",
                  "--starter", std::to_string(starter.pid())});
  EXPECT_EQ(daemon.ExitCode(), 0) << daemon.err();
}

TEST(UntilIdleTest, ARendezvousThatNobodyUsesEndsWithItsStarter) {
  Program starter({"sleep", "1000"});
  Program daemon({DdprunPath(), "rendezvous", "--listen=127.0.0.1:0", "--until-idle=1h",
                  "--starter", std::to_string(starter.pid())});
  ASSERT_TRUE(daemon.WaitForOut("listening"));
  starter.Signal(SIGKILL);
  EXPECT_EQ(daemon.ExitCode(), 0) << daemon.err();
}

}  // namespace torchrun_modes_test
}  // namespace ddprun
