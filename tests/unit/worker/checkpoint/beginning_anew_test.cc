// Tests load_latest() without a loadable state: when a training may begin at step 0, and when it
// must not.
#include <ddp/checkpointer.h>
#include <ddp/context.h>
#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/disk.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace beginning_anew_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kStep0[] = "step-000000000000.safetensors";
constexpr char kStep4[] = "step-000000000004.safetensors";

// A folder per rank, as on nodes without a shared disk.
std::string OwnFolder(const Context& ctx) {
  return std::string(std::getenv("DDP_TEST_FOLDER")) + "/rank" + std::to_string(ctx.rank());
}

// Leaves a damaged file: a crash of its host has cut it short.
void LeaveShortFile(const std::string& folder) {
  fs::create_directories(folder);
  std::ofstream(folder + "/" + kStep4) << "short";
}

// "begins at step 0", or why not.
std::string Begin(const Context& ctx) {
  torch::nn::Linear net(2, 1);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  try {
    const auto state = checkpointer.load_latest(*net, optimizer);
    return state ? "resumed from step " + std::to_string(state->step) : "begins at step 0";
  } catch (const StateUnreadableError& e) {
    return e.what();
  }
}

class CheckpointsBeginningAnewTest : public ::testing::Test {
 protected:
  bool Started(int ranks) {
    return test::StartedRanks(ranks, {{"DDP_TEST_FOLDER", folder_.path()}});
  }
  ddprun::TempDir folder_;
};

// A later generation: the agents count only whole files and find none, so the restore plan names no
// state. Seen red when the folder was only listed.
TEST_F(CheckpointsBeginningAnewTest, APlanWithoutAStateDoesNotLeadToStep0BesideADamagedFile) {
  if (Started(2)) return;
  const Context ctx = init();
  setenv("DDPRUN_RESTORE_TIER", "none", 1);
  if (ctx.rank() == 0) LeaveShortFile(OwnFolder(ctx));
  EXPECT_THAT(Begin(ctx), AllOf(HasSubstr("there are checkpoints, and none of them can be loaded"),
                                HasSubstr(std::string(kStep4) + ": it is damaged: it is too short"),
                                HasSubstr("Training does not begin at step 0 beside them")));
}

// The file has a state that the rendezvous has discarded, so the restore plan names none.
TEST_F(CheckpointsBeginningAnewTest, APlanWithoutAStateLeadsToStep0BesideAWholeFile) {
  if (Started(1)) return;
  const Context ctx = init();
  {
    torch::nn::Linear net(2, 1);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    Checkpointer checkpointer(ctx, OwnFolder(ctx));
    checkpointer.save(State(), *net, optimizer);
  }
  setenv("DDPRUN_RESTORE_TIER", "none", 1);
  EXPECT_EQ(Begin(ctx), "begins at step 0");
  EXPECT_THAT(test::FilesIn(OwnFolder(ctx)), ElementsAre(kStep0));
}

// Each rank is on a node of its own. Without a plan, rank 0's node is searched. Seen red when the
// other nodes only listed their files.
TEST_F(CheckpointsBeginningAnewTest, DamagedFilesOfAnotherNodeAreNamedAndStayAsTheyAre) {
  if (Started(2)) return;
  setenv("LOCAL_RANK", "0", 1);
  setenv("LOCAL_WORLD_SIZE", "1", 1);
  const Context ctx = init();
  if (ctx.rank() == 1) LeaveShortFile(OwnFolder(ctx));
  for (const char* const tier : {"", "none"}) {
    if (*tier != '\0') setenv("DDPRUN_RESTORE_TIER", tier, 1);
    EXPECT_THAT(Begin(ctx), AllOf(HasSubstr("none of them can be loaded; rank 1: "),
                                  HasSubstr(std::string(kStep4) + ": it is damaged: it is too")));
  }
  setenv("DDPRUN_ANEW", "1", 1);
  EXPECT_EQ(Begin(ctx), "begins at step 0");
  if (ctx.rank() == 1) {
    EXPECT_THAT(test::FilesIn(OwnFolder(ctx)), ElementsAre(kStep4));
  }
}

// The file server of one node does not answer for longer than the library retries.
TEST_F(CheckpointsBeginningAnewTest, AFileOfAnotherNodeThatCannotBeReadCounts) {
  if (Started(2)) return;
  setenv("LOCAL_RANK", "0", 1);
  setenv("LOCAL_WORLD_SIZE", "1", 1);
  setenv("DDPRUN_STATE_TIMEOUT_MS", "100", 1);
  const Context ctx = init();
  if (ctx.rank() == 1) LeaveShortFile(OwnFolder(ctx));
  const test::WatchedDisk disk(OwnFolder(ctx));
  if (ctx.rank() == 1) disk.FailOpening(kStep4, EHOSTDOWN);
  EXPECT_THAT(Begin(ctx), AllOf(HasSubstr("rank 1: "), HasSubstr("Host is down (errno 112"),
                                HasSubstr("It may hold the newest state")));
}

// Its agent could not read it when it looked. Seen red when such a file was passed over.
TEST_F(CheckpointsBeginningAnewTest, AWholeFileThatOnlyAnotherNodeHasAndNobodyReportedCounts) {
  if (Started(2)) return;
  setenv("LOCAL_RANK", "0", 1);
  setenv("LOCAL_WORLD_SIZE", "1", 1);
  const Context ctx = init();
  {
    torch::nn::Linear net(2, 1);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    Checkpointer checkpointer(ctx, OwnFolder(ctx));
    checkpointer.save(State(), *net, optimizer);
  }
  if (ctx.rank() == 0) {
    const std::string other = std::string(std::getenv("DDP_TEST_FOLDER")) + "/rank1/";
    fs::create_directories(other);
    fs::rename(OwnFolder(ctx) + "/" + kStep0, other + kStep0);
  }
  EXPECT_THAT(Begin(ctx), AllOf(HasSubstr("none of them can be loaded; rank 1: "),
                                HasSubstr(std::string(kStep0) + ": it is not in the folder of")));
  setenv("DDPRUN_RESTORE_TIER", "none", 1);
  EXPECT_EQ(Begin(ctx), "begins at step 0") << "the rendezvous has decided against it";
}

// A requeued job continues from its own files, also with --start-anew. Seen red when the folder was
// not listed.
TEST_F(CheckpointsBeginningAnewTest, ARequeuedJobDoesNotBeginAnewBesideAFolderThatCannotBeListed) {
  if (Started(2)) return;
  setenv("LOCAL_RANK", "0", 1);
  setenv("LOCAL_WORLD_SIZE", "1", 1);
  setenv("DDPRUN_STATE_TIMEOUT_MS", "100", 1);
  setenv("DDPRUN_RESTORE_TIER", "none", 1);
  setenv("DDPRUN_ANEW", "1", 1);
  const Context ctx = init();
  if (ctx.rank() == 0) {  // found damaged in an earlier training
    fs::create_directories(OwnFolder(ctx));
    std::ofstream(OwnFolder(ctx) + "/" + kStep4 + ".corrupt") << "short";
  }
  setenv("DDPRUN_EPOCH", "1", 1);
  EXPECT_EQ(Begin(ctx), "begins at step 0");
  if (ctx.rank() == 1) {
    fs::remove_all(OwnFolder(ctx));
    std::ofstream(OwnFolder(ctx)) << "in the way";
  }
  setenv("DDPRUN_EPOCH", "0", 1);
  EXPECT_EQ(Begin(ctx), "begins at step 0");
  setenv("DDPRUN_EPOCH", "1", 1);
  EXPECT_THAT(Begin(ctx), AllOf(HasSubstr("rank 1: "), HasSubstr("cannot list it")));
}

}  // namespace beginning_anew_test
}  // namespace ddp
