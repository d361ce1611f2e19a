// The flags of torchrun that set the rendezvous, the ranks, and the program of a worker.
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/config/flags/cli.h"
#include "tests/unit/launcher/config/fake_host.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace torchrun_flags_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

Arguments WithCommand(Arguments arguments) {
  arguments.push_back("./train");
  return arguments;
}

RunCommand RunWith(const Arguments& arguments, const FakeHost& host = {}) {
  return ParseAs<RunCommand>(WithCommand(arguments), host);
}

JobConfig JobOf(const Arguments& arguments, const FakeHost& host = {}) {
  return RunWith(arguments, host).config;
}

std::string ErrorOf(const Arguments& arguments, const FakeHost& host = {}) {
  const Command command = Parse(WithCommand(arguments), host);
  const auto* error = std::get_if<CommandLineError>(&command);
  return error == nullptr ? "no error" : error->message;
}

// One row: the flags, and the settings that they lead to.
struct Mode {
  const char* name;
  Arguments arguments;
  std::string endpoint;  // empty: standalone
  std::string autostart;
  std::string master_addr;
  int master_port;
  int node_rank;
};

class ModeTest : public testing::TestWithParam<Mode> {};

TEST_P(ModeTest, IsWhatTorchrunMakesOfTheFlags) {
  const JobConfig config = JobOf(GetParam().arguments);
  const RendezvousConfig& rendezvous = config.rendezvous;
  EXPECT_EQ(rendezvous.endpoint, GetParam().endpoint);
  EXPECT_EQ(rendezvous.autostart, GetParam().autostart);
  EXPECT_EQ(config.spec.master_addr, GetParam().master_addr);
  EXPECT_EQ(config.spec.master_port, GetParam().master_port);
  EXPECT_EQ(rendezvous.node_rank, GetParam().node_rank);
}

INSTANTIATE_TEST_SUITE_P(
    Every, ModeTest,
    testing::Values(
        Mode{"NoFlags", {}, "", "auto", "", 0, -1},
        Mode{"OneNodeWithAMasterPort", {"--master_port=29501"}, "", "auto", "127.0.0.1", 29501, 0},
        Mode{"OneNodeStatic", {"--rdzv-backend=static"}, "", "auto", "127.0.0.1", 29500, 0},
        Mode{"OneNodeC10dOnAnyPort",
             {"--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"},
             "",
             "auto",
             "",
             0,
             -1},
        Mode{"C10d",
             {"--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=n1:29400"},
             "n1:29400",
             "true",
             "",
             0,
             -1},
        Mode{"C10dTakesNoPartInRanks",
             {"--nnodes=1:2", "--rdzv_backend=c10d", "--rdzv_endpoint=n1", "--node_rank=0",
              "--master_addr=n9", "--master_port=1"},
             "n1:29400",
             "true",
             "",
             0,
             -1},
        Mode{"AnEndpointAlone",
             {"--nnodes=2", "--rdzv-endpoint=n1:29400"},
             "n1:29400",
             "auto",
             "",
             0,
             -1},
        Mode{"StaticMeetsOnTheNextPort",
             {"--nnodes=2", "--node_rank=1", "--master_addr=n1", "--master_port=29500"},
             "n1:29501",
             "true",
             "n1",
             29500,
             1},
        Mode{"StaticWithTorchrunsDefaults",
             {"--nnodes=2", "--rdzv-backend=static"},
             "127.0.0.1:29501",
             "true",
             "127.0.0.1",
             29500,
             0},
        Mode{"StaticOverIPv6",
             {"--nnodes=2", "--master-addr=[fe80::1]"},
             "[fe80::1]:29501",
             "true",
             "fe80::1",
             29500,
             0},
        Mode{"StaticWithAnEndpoint",
             {"--nnodes=2", "--master-addr=n1", "--master-port=77", "--rdzv-endpoint=n2:30"},
             "n2:30",
             "true",
             "n1",
             77,
             0},
        Mode{"TheEndpointOfTheStaticBackendIsTheMaster",
             {"--nnodes=2", "--rdzv_backend=static", "--rdzv_endpoint=n1:77", "--node_rank=1"},
             "n1:78",
             "true",
             "n1",
             77,
             1},
        Mode{"TheEndpointOfTheStaticBackendWinsOverAMaster",
             {"--nnodes=2", "--rdzv_backend=static", "--rdzv_endpoint=n1:77", "--master_addr=n9",
              "--master_port=99"},
             "n1:78",
             "true",
             "n1",
             77,
             0},
        Mode{"TheEndpointOfTheStaticBackendIsTheMasterOfOneNode",
             {"--rdzv_backend=static", "--rdzv_endpoint=[::1]:77"},
             "",
             "auto",
             "::1",
             77,
             0},
        Mode{"RanksWithAnEndpointAndNoMaster",
             {"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=n2:30"},
             "n2:30",
             "true",
             "",
             0,
             1},
        Mode{"RanksAtARendezvousOfTheUsers",
             {"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=n2:30", "--rdzv-backend=ddprun"},
             "n2:30",
             "false",
             "",
             0,
             1},
        Mode{"AFixedPortAtARendezvous",
             {"--nnodes=2", "--rdzv-endpoint=n2:30", "--master-port=77"},
             "n2:30",
             "auto",
             "",
             77,
             -1}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(StaticModeTest, TheEnvironmentCanSayAllOfIt) {
  FakeHost host;
  host.variables = {{"PET_NNODES", "2"},
                    {"PET_NODE_RANK", "1"},
                    {"PET_MASTER_ADDR", "n1"},
                    {"PET_MASTER_PORT", "29500"}};
  const RendezvousConfig rendezvous = JobOf({}, host).rendezvous;
  EXPECT_EQ(rendezvous.endpoint, "n1:29501");
  EXPECT_EQ(rendezvous.node_rank, 1);
}

TEST(StaticModeTest, NodeRankIsBelowTheNumberOfNodes) {
  for (const char* const rank : {"2", "-1", "first"}) {
    EXPECT_THAT(ErrorOf({"--nnodes=2", "--master-addr=n1", "--node-rank", rank}),
                StartsWith("--node-rank: expected a whole number from 0 to 1, below --nnodes"));
  }
}

TEST(StaticModeTest, TheNumberOfNodesIsFixed) {
  EXPECT_EQ(ErrorOf({"--nnodes=1:2", "--node-rank=0", "--master-addr=n1"}),
            "--node-rank: static mode has a fixed number of nodes; --rdzv-backend=c10d takes "
            "MIN:MAX");
}

TEST(StaticModeTest, TheRendezvousNeedsAPortToo) {
  EXPECT_EQ(ErrorOf({"--nnodes=2", "--master-addr=n1", "--master-port=65535"}),
            "--master-port: 65535 has no next port for the rendezvous; give --rdzv-endpoint");
}

TEST(StaticModeTest, TheEndpointOfTheStaticBackendNeedsANextPort) {
  EXPECT_EQ(ErrorOf({"--nnodes=2", "--rdzv-backend=static", "--rdzv-endpoint=n1:65535"}),
            "--rdzv-endpoint: 65535 has no next port for the rendezvous; give a lower one");
}

TEST(StaticModeTest, AMasterBesideTheEndpointOfTheStaticBackendIsNoted) {
  EXPECT_THAT(RunWith({"--rdzv-backend=static", "--rdzv-endpoint=n1:77", "--master-port=99"}).notes,
              ElementsAre(StartsWith("--master-port has no effect: with --rdzv-backend=static")));
}

TEST(StaticModeTest, StandaloneMeansOneNode) {
  EXPECT_THAT(ErrorOf({"--standalone", "--nnodes=2", "--master-addr=n1"}),
              HasSubstr("more than one node needs a rendezvous (found 2 and --standalone)"));
}

TEST(C10dModeTest, SeveralNodesNeedAPortToMeetAt) {
  EXPECT_EQ(ErrorOf({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"}),
            "--rdzv-endpoint: port 0 is for one node; give the nodes a port to meet at");
}

TEST(C10dModeTest, WhatIsForStaticModeIsNoted) {
  EXPECT_THAT(RunWith({"--rdzv-backend=c10d", "--rdzv-endpoint=n1", "--node-rank=3"}).notes,
              ElementsAre(StartsWith("--node-rank has no effect: with c10d")));
}

TEST(VirtualLocalRankTest, EachWorkerNeedsAVisibleGpu) {
  EXPECT_FALSE(JobOf({}).program.virtual_local_rank);
  EXPECT_TRUE(JobOf({"--virtual_local_rank", "--nproc-per-node=9"}).program.virtual_local_rank);
  FakeHost host;
  host.variables["CUDA_VISIBLE_DEVICES"] = "4,6";
  EXPECT_TRUE(
      JobOf({"--virtual-local-rank", "--nproc-per-node=2"}, host).program.virtual_local_rank);
  EXPECT_EQ(ErrorOf({"--virtual-local-rank", "--nproc-per-node=3"}, host),
            "--virtual-local-rank: each worker needs a GPU of its own (found 3 workers and "
            "CUDA_VISIBLE_DEVICES=4,6)");
}

TEST(RunPathTest, TheScriptRunsUnderRunpyWhateverItsName) {
  const std::vector<std::string> command = JobOf({"--run-path", "--no-python"}).command;
  ASSERT_EQ(command.size(), 5U);
  EXPECT_EQ(command[0], "python3");
  EXPECT_EQ(command[1], "-u");
  EXPECT_EQ(command[2], "-c");
  EXPECT_THAT(command[3], HasSubstr("runpy.run_path"));
  EXPECT_EQ(command[4], "./train");
  EXPECT_THAT(ErrorOf({"--run-path", "-m"}), HasSubstr("-m names a module and --run-path a file"));
}

TEST(SignalsToHandleTest, TakesTheSignalsThatAreHandled) {
  EXPECT_THAT(RunWith({"--signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"}).notes, IsEmpty());
  RunWith({"--signals_to_handle=SIGTERM, SIGUSR1,SIGUSR2"});
  for (const char* const name : {"SIGKILL", "TERM", "15", ""}) {
    EXPECT_THAT(ErrorOf({std::string("--signals-to-handle=SIGTERM,") + name}),
                StartsWith("--signals-to-handle: expected names among SIGTERM,SIGINT"));
  }
}

TEST(InsecureTest, IsForTheRendezvousThatIsStartedHere) {
  EXPECT_FALSE(JobOf({}).insecure);
  EXPECT_TRUE(JobOf({"--insecure"}).insecure);
}

}  // namespace torchrun_flags_test
}  // namespace ddprun
