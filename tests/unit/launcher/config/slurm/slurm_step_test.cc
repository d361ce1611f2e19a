// A job under `srun`, with and without flags.
#include "launcher/config/slurm/slurm_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>

#include "tests/support/temp_dir.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace slurm_step_test {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

// Task 1 of four, as Slurm 22.05 sets it up.
FakeHost Task() {
  FakeHost host;
  host.variables = {{"SLURM_JOB_ID", "4711"},
                    {"SLURM_JOB_NUM_NODES", "4"},
                    {"SLURM_STEP_ID", "0"},
                    {"SLURM_STEP_NUM_NODES", "4"},
                    {"SLURM_STEP_NODELIST", "n[1-4]"},
                    {"SLURM_STEP_TASKS_PER_NODE", "1(x4)"},
                    {"SLURM_NODEID", "1"}};
  return host;
}

TEST(SlurmStepTest, StepGivesAJobAllThatFlagsWouldSay) {
  const JobConfig config = RunOf({"./train"}, Task()).config;
  EXPECT_EQ(config.nodes.min, 4);
  EXPECT_EQ(config.nodes.max, 4);
  EXPECT_EQ(config.nproc_per_node, 1);
  EXPECT_EQ(config.rendezvous.endpoint, "n1:28844");
  EXPECT_EQ(config.rendezvous.spare_ports, 3);
  EXPECT_EQ(config.rendezvous.id, "4711");
  EXPECT_EQ(config.rendezvous.requeue_number, 0U);
  EXPECT_EQ(config.rendezvous.node_rank, 1);
  EXPECT_EQ(config.rendezvous.autostart, "true");
  EXPECT_TRUE(config.rendezvous.credentials.munge);
  EXPECT_TRUE(config.place.slurm_requeues);
  // Together less than the 30 s between Slurm's SIGTERM and SIGKILL.
  EXPECT_EQ(config.spec.save_timeout, seconds(20));
  EXPECT_EQ(config.stop_grace, seconds(5));
}

TEST(SlurmStepTest, RequeuedJobIsTheNextEpoch) {
  FakeHost host = Task();
  host.variables["SLURM_RESTART_COUNT"] = "2";
  EXPECT_EQ(RunOf({"./train"}, host).config.rendezvous.requeue_number, 2U);
}

TEST(SlurmStepTest, FlagsAndFilesWin) {
  const JobFile file("{command: a, save_timeout: 3min, nproc_per_node: 2}");
  const JobConfig config =
      RunOf({"-c", file.path(), "--rdzv-id", "mine", "--nnodes=2:3", "--stop-grace=1s"}, Task())
          .config;
  EXPECT_EQ(config.nproc_per_node, 2);
  EXPECT_EQ(config.rendezvous.id, "mine.4711");
  EXPECT_EQ(config.nodes.min, 2);
  EXPECT_EQ(config.nodes.max, 3);
  EXPECT_EQ(config.spec.save_timeout, seconds(180));
  EXPECT_EQ(config.stop_grace, seconds(1));
  EXPECT_EQ(config.rendezvous.node_rank, -1);  // any of the four nodes may be the spare
}

TEST(SlurmStepTest, WhoNamesARendezvousMeetsThere) {
  for (const char* const flag :
       {"--rdzv-endpoint=head:29400", "--standalone", "--master-addr=n3"}) {
    const JobConfig config = RunOf({"--nnodes=1", flag, "./train"}, Task()).config;
    EXPECT_THAT(config.rendezvous.endpoint, testing::Not(StartsWith("n1:"))) << flag;
    EXPECT_FALSE(config.place.slurm_requeues) << flag;
    EXPECT_FALSE(config.rendezvous.credentials.munge) << flag;
  }
}

// Break: leave out CompleteNamedEndpoint().
TEST(SlurmStepTest, ABatchScriptForTorchrunHasMungeAndARendezvousThatOutlivesItsAgent) {
  for (const auto& [backend, place] : {std::pair("--rdzv-backend=c10d", "--rdzv-endpoint=n1:29500"),
                                       std::pair("--node-rank=1", "--master-addr=n1")}) {
    const JobConfig config = RunOf({"--nnodes=4", backend, place, "./train"}, Task()).config;
    EXPECT_TRUE(config.rendezvous.credentials.munge) << place;
    EXPECT_TRUE(config.place.ends_with_process) << place;
    EXPECT_FALSE(config.place.slurm_requeues) << place;
  }
  const auto munge_with = [](const std::string& flag) {
    return RunOf({"--nnodes=4", "--rdzv-backend=c10d", "--rdzv-endpoint=n1:29500", flag, "./train"},
                 Task())
        .config.rendezvous.credentials.munge;
  };
  EXPECT_FALSE(munge_with("--insecure"));
  // A user who runs a daemon chooses its credentials.
  EXPECT_FALSE(munge_with("--rdzv-backend=ddprun"));
}

TEST(SlurmStepTest, OtherCredentialsReplaceMunge) {
  const auto uses_munge = [](const std::string& flag) {
    return RunOf({flag, "./train"}, Task()).config.rendezvous.credentials.munge;
  };
  EXPECT_FALSE(uses_munge("--token-file=t"));
  EXPECT_FALSE(uses_munge("--tls-ca=ca.crt"));
  EXPECT_FALSE(uses_munge("--insecure"));
  EXPECT_TRUE(uses_munge("--no-python"));
}

TEST(SlurmStepTest, WorkersAreTheGpusOfTheStepElseThoseSeenElseOne) {
  FakeHost host = Task();
  host.gpu_devices = 8;
  EXPECT_EQ(RunOf({"a"}, host).config.nproc_per_node, 8);
  host.variables["SLURM_GPUS_ON_NODE"] = "3";
  EXPECT_EQ(RunOf({"a"}, host).config.nproc_per_node, 3);
  EXPECT_EQ(RunOf({"--nproc-per-node=5", "a"}, host).config.nproc_per_node, 5);
  const TempDir folder;
  std::ofstream(folder / "job.yaml") << "command: a\nenv: {CUDA_VISIBLE_DEVICES: '0,3'}\n";
  EXPECT_EQ(RunOf({"--config=" + folder / "job.yaml"}, host).config.nproc_per_node, 2);
}

TEST(SlurmStepTest, SeveralInstancesOfADividedGpuAreRefusedHereToo) {
  FakeHost host = Task();
  host.instances = 2;
  EXPECT_THAT(ErrorOf({"a"}, kExitUsage, host), HasSubstr("instances of divided GPUs (MIG)"));
  host.variables["SLURM_GPUS_ON_NODE"] = "2";
  EXPECT_THAT(ErrorOf({"a"}, kExitUsage, host), HasSubstr("instances of divided GPUs (MIG)"));
  host.instances = 1;
  EXPECT_EQ(RunOf({"a"}, host).config.nproc_per_node, 1);
}

TEST(SlurmStepTest, OneNodeNeedsNoRendezvous) {
  FakeHost host = Task();
  host.variables["SLURM_STEP_NUM_NODES"] = "1";
  host.variables["SLURM_NODEID"] = "0";
  const JobConfig config = RunOf({"./train"}, host).config;
  EXPECT_TRUE(config.standalone());
  EXPECT_EQ(config.rendezvous.id, "4711");
}

TEST(SlurmStepTest, EachNodeOfSeveralOnItsOwnIsRefused) {
  EXPECT_THAT(ErrorOf({"--nnodes=1", "./train"}, kExitUsage, Task()),
              HasSubstr("each would train on its own: srun --nodes=1"));
}

TEST(SlurmStepTest, SeveralTasksOnANodeAreRefusedWithWhatToWrite) {
  FakeHost host = Task();
  host.variables["SLURM_STEP_TASKS_PER_NODE"] = "1(x3),4";
  EXPECT_THAT(ErrorOf({"./train"}, kExitUsage, host),
              HasSubstr("srun --ntasks-per-node=1 ddprun --nproc-per-node N COMMAND"));
}

// In a heterogeneous job, SLURM_NODEID counts the nodes of all parts, and the variables of the step
// only the nodes of one part.
TEST(SlurmStepTest, ANodeOfAnotherPartIsRefusedUnlessARendezvousIsNamed) {
  FakeHost host = Task();
  host.variables["SLURM_NODEID"] = "4";
  EXPECT_THAT(ErrorOf({"./train"}, kExitUsage, host), HasSubstr("as in a heterogeneous job"));
  RunOf({"--rdzv-endpoint=n1:29400", "--nnodes=6", "./train"}, host);
}

TEST(SlurmStepTest, TheNodesNameIsSlurms) {
  FakeHost host = Task();
  host.variables["SLURMD_NODENAME"] = "rack2-n1";
  EXPECT_EQ(RunOf({"./train"}, host).config.place.node_name, "rack2-n1");
}

TEST(SlurmStepTest, MoreNodesThanTheStepHasAreRefused) {
  const std::string error = ErrorOf({"--nnodes=5:6", "./train"}, kExitUsage, Task());
  EXPECT_THAT(error, StartsWith("--nnodes: expected at most the 4 nodes of this Slurm step"));
}

TEST(SlurmStepTest, WhatSlurmWouldNotSetIsNamed) {
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"SLURM_NODEID", "x"}, {"SLURM_STEP_NODELIST", ""}, {"SLURM_STEP_NUM_NODES", "0"}}) {
    FakeHost host = Task();
    host.variables[name] = value;
    EXPECT_THAT(ErrorOf({"./train"}, kExitUsage, host), StartsWith(name + ": expected "));
  }
}

TEST(SlurmStepTest, OutsideOfAStepNothingChanges) {
  FakeHost host = Task();
  host.variables.erase("SLURM_STEP_NUM_NODES");  // a batch script that does not use srun
  const JobConfig config = RunOf({"./train"}, host).config;
  EXPECT_TRUE(config.standalone());
  EXPECT_EQ(config.rendezvous.id, "none");
  EXPECT_FALSE(config.place.slurm_requeues);
}

TEST(SlurmStepTest, FirstHostOfEveryFormOfAList) {
  EXPECT_EQ(FirstHost("n1"), "n1");
  EXPECT_EQ(FirstHost("n1,n2"), "n1");
  EXPECT_EQ(FirstHost("n[1-4]"), "n1");
  EXPECT_EQ(FirstHost("gpu-[007,9-12].local,x"), "gpu-007.local");
  EXPECT_EQ(FirstHost("rack[2-3]n[07,09],x[1-2]"), "rack2n07");
  EXPECT_EQ(FirstHost(""), "");
}

TEST(SlurmStepTest, PortsOfNeighbouringJobsDoNotMeetAndAreNoClients) {
  for (const int id : {1, 4999, 5000, 123'456'789}) {
    const int port = SlurmPort(std::to_string(id));
    EXPECT_GE(port, 10'000);
    EXPECT_LT(port + kSlurmSparePorts, 32'768);
    EXPECT_NE(SlurmPort(std::to_string(id + 1)) / 4, port / 4);
  }
}

}  // namespace slurm_step_test
}  // namespace ddprun
