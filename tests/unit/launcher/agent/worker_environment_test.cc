#include "launcher/agent/worker_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "worker/contract/environment.h"

namespace ddprun {
namespace worker_environment_test {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAreArray;

JobConfig Config() {
  JobConfig config;
  config.rendezvous.id = "exp7";
  config.rendezvous.requeue_number = 1;
  config.role = "trainer";
  config.nproc_per_node = 2;
  config.checkpoint_dir = "/ckpt";
  config.checkpoint.take_folder = true;
  config.checkpoint.state_timeout = std::chrono::seconds(90);
  return config;
}

// Local rank 1 of two workers on the second of two nodes.
WorkerPlace Place(const JobConfig& config) {
  WorkerPlace place;
  place.config = &config;
  place.generation = Generation{4};
  place.assignment.node_rank = NodeRank{1};
  place.assignment.node_count = 2;
  place.assignment.first_rank = Rank{4};
  place.assignment.world_size = 6;
  place.assignment.master_addr = "10.0.0.1";
  place.assignment.master_port = 4711;
  place.assignment.restart_count = 2;
  place.assignment.max_restarts = 3;
  place.assignment.run_id = RunId{0x2b};
  place.local_rank = LocalRank{1};
  place.run_dir = "/logs/exp7_x";
  place.error_file = "/logs/exp7_x/attempt_4/1/error.json";
  place.snapshot_dir = "/dev/shm/ddprun-x";
  place.control_socket = "/tmp/ddprun-x/control.sock";
  return place;
}
WorkerPlace Place() {
  static const auto* const config = new JobConfig(Config());
  return Place(*config);
}

TEST(WorkerEnvironmentTest, HoldsEveryVariableOfTheContract) {
  EXPECT_THAT(
      WorkerEnvironment(Place(), {}, {}),
      ElementsAre("DDPRUN_CHECKPOINT_DIR=/ckpt", "DDPRUN_CONTROL_SOCKET=/tmp/ddprun-x/control.sock",
                  "DDPRUN_EPOCH=1", "DDPRUN_GENERATION=4", "DDPRUN_HANG_LIMIT_MS=600000",
                  "DDPRUN_JOB_RUN_ID=000000000000002b", "DDPRUN_RUN_DIR=/logs/exp7_x",
                  "DDPRUN_SNAPSHOT_DIR=/dev/shm/ddprun-x", "DDPRUN_STATE_TIMEOUT_MS=90000",
                  "DDPRUN_TAKE_FOLDER=1", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "LOCAL_RANK=1",
                  "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=4711",
                  "NCCL_ASYNC_ERROR_HANDLING=1", "OMP_NUM_THREADS=1", "RANK=5", "ROLE_NAME=trainer",
                  "ROLE_RANK=5", "ROLE_WORLD_SIZE=6",
                  "TORCHELASTIC_ERROR_FILE=/logs/exp7_x/attempt_4/1/error.json",
                  "TORCHELASTIC_MAX_RESTARTS=3", "TORCHELASTIC_RESTART_COUNT=2",
                  "TORCHELASTIC_RUN_ID=exp7", "TORCHELASTIC_USE_AGENT_STORE=False",
                  "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "WORLD_SIZE=6"));
}

TEST(WorkerEnvironmentTest, RanksOfARoleAreCountedApart) {
  WorkerPlace place = Place();
  place.assignment.role = RolePlace{Rank{2}, 4};
  EXPECT_THAT(WorkerEnvironment(place, {}, {}),
              IsSupersetOf({"RANK=5", "WORLD_SIZE=6", "ROLE_RANK=3", "ROLE_WORLD_SIZE=4"}));
}

// A variable that is not in kVariables would be taken from an outer job, or from a job file.
TEST(WorkerEnvironmentTest, SetsNothingThatTheContractDoesNotName) {
  JobConfig config = Config();
  config.spec.start_anew = true;
  WorkerPlace place = Place(config);
  place.assignment.restore =
      RestorePlan{SavedState{2, Generation{3}, 1200, Tier::kMemory}, Rank{4}, "n2"};
  place.assignment.restore->unseen = {SavedState{2, Generation{3}, 1300, Tier::kDurable}, Rank{5},
                                      "n3"};
  place.assignment.secret = "seen nowhere";
  std::vector<std::string> names;
  for (const env::Variable& variable : env::kVariables) {
    if (variable.scope != env::Scope::kStandby) names.emplace_back(variable.name);
  }
  std::vector<std::string> set;
  for (const std::string& entry : WorkerEnvironment(place, {}, {})) {
    set.push_back(entry.substr(0, entry.find('=')));
  }
  EXPECT_THAT(set, UnorderedElementsAreArray(names));
}

TEST(WorkerEnvironmentTest, SaysWhereASecretIsAndNotWhatItIs) {
  WorkerPlace place = Place();
  place.assignment.secret = "seen nowhere";
  const auto environment = WorkerEnvironment(place, {}, {});
  EXPECT_THAT(environment, Contains("DDPRUN_PEER_SECRET=ask"));
  EXPECT_THAT(environment, Not(Contains(testing::HasSubstr("seen nowhere"))));
}

TEST(WorkerEnvironmentTest, APlanNamesTheStateAndWhoHoldsIt) {
  WorkerPlace place = Place();
  place.assignment.restore =
      RestorePlan{SavedState{2, Generation{3}, 1200, Tier::kMemory}, Rank{4}, "n2"};
  EXPECT_THAT(WorkerEnvironment(place, {}, {}),
              IsSupersetOf({"DDPRUN_RESTORE_STEP=1200", "DDPRUN_RESTORE_RANK=4",
                            "DDPRUN_RESTORE_TIER=memory", "DDPRUN_RESTORE_EPOCH=2",
                            "DDPRUN_RESTORE_GENERATION=3"}));
}

TEST(WorkerEnvironmentTest, AnUnseenCheckpointIsNamedBesideThePlan) {
  WorkerPlace place = Place();
  place.assignment.restore = RestorePlan{};
  place.assignment.restore->unseen = {SavedState{2, Generation{3}, 1300, Tier::kDurable}, Rank{4},
                                      "n2"};
  EXPECT_THAT(WorkerEnvironment(place, {"DDPRUN_RESTORE_UNSEEN=9"}, {}),
              Contains("DDPRUN_RESTORE_UNSEEN=1300 4 2 3"));
  place.assignment.restore->unseen.reset();
  EXPECT_THAT(WorkerEnvironment(place, {"DDPRUN_RESTORE_UNSEEN=9"}, {}),
              Not(Contains(StartsWith("DDPRUN_RESTORE_UNSEEN"))));
}

TEST(WorkerEnvironmentTest, WhereNothingIsValidOnlyThatIsSaid) {
  WorkerPlace place = Place();
  place.assignment.restore = RestorePlan{};
  const auto environment = WorkerEnvironment(place, {"DDPRUN_RESTORE_RANK=9"}, {});
  EXPECT_THAT(environment, IsSupersetOf({"DDPRUN_RESTORE_STEP=0", "DDPRUN_RESTORE_TIER=none"}));
  EXPECT_THAT(environment, Not(Contains(StartsWith("DDPRUN_RESTORE_RANK"))));
}

TEST(WorkerEnvironmentTest, WorkersHearThatTheTrainingBeginsAnew) {
  EXPECT_THAT(WorkerEnvironment(Place(), {"DDPRUN_ANEW=1"}, {}),
              Not(Contains(StartsWith("DDPRUN_ANEW"))));
  JobConfig config = Config();
  config.spec.start_anew = true;
  EXPECT_THAT(WorkerEnvironment(Place(config), {}, {}), Contains("DDPRUN_ANEW=1"));
}

TEST(WorkerEnvironmentTest, AnOuterJobsPlanIsNotTakenForOurs) {
  EXPECT_THAT(WorkerEnvironment(Place(), {"DDPRUN_RESTORE_STEP=7"}, {}),
              Not(Contains(StartsWith("DDPRUN_RESTORE"))));
}

TEST(WorkerEnvironmentTest, OursWinOverTheJobFilesAndThoseOverInheritedOnes) {
  const auto environment =
      WorkerEnvironment(Place(), {"RANK=9", "A=inherited", "B=inherited", "=C:=odd", "odd"},
                        {{"A", "configured"}, {"WORLD_SIZE", "1"}});
  EXPECT_THAT(environment, IsSupersetOf({"RANK=5", "A=configured", "B=inherited", "WORLD_SIZE=6"}));
  EXPECT_THAT(environment, Not(Contains("RANK=9")));
}

TEST(WorkerEnvironmentTest, AVirtualLocalRankIsZeroAndSeesOneGpu) {
  JobConfig config = Config();
  config.program.virtual_local_rank = true;
  const WorkerPlace place = Place(config);
  EXPECT_THAT(WorkerEnvironment(place, {}, {}),
              IsSupersetOf({"LOCAL_RANK=0", "CUDA_VISIBLE_DEVICES=1", "RANK=5"}));
  EXPECT_THAT(WorkerEnvironment(place, {"CUDA_VISIBLE_DEVICES=7, 5 ,3"}, {}),
              Contains("CUDA_VISIBLE_DEVICES=5"));
  EXPECT_THAT(
      WorkerEnvironment(place, {"CUDA_VISIBLE_DEVICES=7"}, {{"CUDA_VISIBLE_DEVICES", "2,4"}}),
      Contains("CUDA_VISIBLE_DEVICES=4"));
}

TEST(WorkerEnvironmentTest, VisibleGpusAreLeftAloneOtherwise) {
  EXPECT_THAT(WorkerEnvironment(Place(), {"CUDA_VISIBLE_DEVICES=7,5"}, {}),
              Contains("CUDA_VISIBLE_DEVICES=7,5"));
  EXPECT_THAT(WorkerEnvironment(Place(), {}, {}),
              Not(Contains(StartsWith("CUDA_VISIBLE_DEVICES"))));
}

TEST(WorkerEnvironmentTest, WhatIsSetUnlessSetIsLeftAlone) {
  EXPECT_THAT(WorkerEnvironment(Place(), {"OMP_NUM_THREADS=8", "NCCL_ASYNC_ERROR_HANDLING=2"},
                                {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"}}),
              IsSupersetOf({"OMP_NUM_THREADS=8", "NCCL_ASYNC_ERROR_HANDLING=2",
                            "TORCH_NCCL_ASYNC_ERROR_HANDLING=0"}));
}

TEST(WorkerEnvironmentTest, AWorkerThatIsAloneOnItsNodeMayUseAllThreads) {
  JobConfig config = Config();
  config.nproc_per_node = 1;
  const WorkerPlace place = Place(config);
  EXPECT_THAT(WorkerEnvironment(place, {}, {}), Not(Contains(StartsWith("OMP_NUM_THREADS"))));
}

TEST(WorkerEnvironmentTest, AnOuterJobsFoldersAreNotTakenForOurs) {
  JobConfig config = Config();
  config.checkpoint_dir = "";
  const WorkerPlace place = Place(config);
  EXPECT_THAT(WorkerEnvironment(place, {"DDPRUN_CHECKPOINT_DIR=/outer"}, {}),
              Not(Contains(StartsWith("DDPRUN_CHECKPOINT_DIR"))));
}

// The worker libraries read the limit as an int.
TEST(WorkerEnvironmentTest, TheLimitOfHangsFitsIntoAnInt) {
  JobConfig config = Config();
  config.spec.hang_startup_timeout = std::chrono::hours(24 * 300);
  EXPECT_THAT(WorkerEnvironment(Place(config), {}, {}), Contains("DDPRUN_HANG_LIMIT_MS=604800000"));
  config.restart.hang.timeout = "off";
  EXPECT_THAT(WorkerEnvironment(Place(config), {}, {}),
              Not(Contains(StartsWith("DDPRUN_HANG_LIMIT_MS"))));
}

// Break: leave RANK in. A program may take it for its place in the job.
TEST(StandbyEnvironmentTest, HasWhatIsKnownAheadAndNoPlaceInTheJob) {
  EXPECT_THAT(
      StandbyEnvironment(Place(), {"RANK=9", "MASTER_ADDR=x", "A=b", "DDPRUN_GENERATION=1"}, {}),
      ElementsAre("A=b", "DDPRUN_CHECKPOINT_DIR=/ckpt",
                  "DDPRUN_CONTROL_SOCKET=/tmp/ddprun-x/control.sock", "DDPRUN_EPOCH=1",
                  "DDPRUN_HANG_LIMIT_MS=600000", "DDPRUN_RUN_DIR=/logs/exp7_x",
                  "DDPRUN_SNAPSHOT_DIR=/dev/shm/ddprun-x", "DDPRUN_STANDBY=1",
                  "DDPRUN_STATE_TIMEOUT_MS=90000", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
                  "NCCL_ASYNC_ERROR_HANDLING=1", "OMP_NUM_THREADS=1", "ROLE_NAME=trainer",
                  "TORCHELASTIC_RUN_ID=exp7", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"));
}

TEST(WorkerEnvironmentTest, EveryRankHearsWhoServesTheStore) {
  WorkerPlace place = Place();
  place.assignment.agent_store = true;
  EXPECT_THAT(WorkerEnvironment(place, {"TORCHELASTIC_USE_AGENT_STORE=False"}, {}),
              Contains("TORCHELASTIC_USE_AGENT_STORE=True"));
}

TEST(WorkerEnvironmentTest, AWorkerOfAnInnerJobIsNoStandby) {
  EXPECT_THAT(WorkerEnvironment(Place(), {"DDPRUN_STANDBY=1"}, {}),
              Not(Contains(StartsWith("DDPRUN_STANDBY"))));
}

TEST(WorkerArgumentsTest, LocalRankIsReplacedWhereverItStands) {
  EXPECT_THAT(WorkerArguments(
                  {"./train", "--device=${local_rank}", "${local_rank}${local_rank}", "${rank}"},
                  LocalRank{3}),
              ElementsAre("./train", "--device=3", "33", "${rank}"));
}

}  // namespace worker_environment_test
}  // namespace ddprun
