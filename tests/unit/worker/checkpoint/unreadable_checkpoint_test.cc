// Tests checkpoints that exist and cannot be read.
#include <ddp/checkpointer.h>
#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/worker/checkpoint/checkpointer_training.h"
#include "tests/unit/worker/support/disk.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace checkpointer_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Seen red when files that cannot be opened were skipped: step 1 was loaded.
TEST_F(CheckpointerTest, AFileThatThisUserMayNotReadEndsTheTrainingAtOnceOnAllRanks) {
  if (Started(2)) return;
  const Context ctx = init();
  SaveTwo(ctx);
  if (ctx.rank() == 0) fs::permissions(OwnFolder(ctx) + "/" + kStep2, fs::perms::none);
  barrier(ctx);
  fs::permissions(std::getenv("DDP_TEST_FOLDER"), fs::perms::all);
  const uid_t user = geteuid();
  if (user == 0) {  // root may read everything
    ASSERT_EQ(seteuid(65534), 0);
  }
  Training resumed(ctx, 2, kSgd);
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  const auto began = std::chrono::steady_clock::now();
  const std::string why = WhyUnreadable(checkpointer, resumed);
  EXPECT_THAT(why, AllOf(HasSubstr("rank 0: "), HasSubstr(kStep2),
                         HasSubstr("cannot open it: Permission denied (errno 13, user id "),
                         HasSubstr("--start-anew, to begin at step 0. Nothing was changed")));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30)) << "no retries";
  ASSERT_EQ(seteuid(user), 0);
}

// Like a file server that does not answer for a while.
TEST_F(CheckpointerTest, AFileThatIsUnavailableForAWhileIsWaitedFor) {
  if (test::InRank()) {
    const Context ctx = init();
    SaveTwo(ctx);
    const test::WatchedDisk disk(OwnFolder(ctx));
    if (ctx.rank() == 0) {
      const auto last = fs::file_size(OwnFolder(ctx) + "/" + kStep2) - 1;
      disk.FailReads(kStep2, ETIMEDOUT, last, 2);  // while all ranks load the state
    }
    Training resumed(ctx, 2, kSgd);
    Checkpointer checkpointer(ctx, OwnFolder(ctx));
    const auto state = checkpointer.load_latest(*resumed.net, *resumed.optimizer);
    ASSERT_TRUE(state);
    EXPECT_EQ(state->step, 2);
    return;
  }
  const auto ranks = test::RunRanks({2, {}, {{"DDP_TEST_FOLDER", folder_.path()}}});
  for (const auto& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
  EXPECT_THAT(ranks[0].err,
              AllOf(HasSubstr(std::string(kStep2) + ": cannot read its bytes "),
                    HasSubstr("training waits for it, at most 120.0 s (--state-timeout)")));
}

TEST_F(CheckpointerTest, AFileThatStaysUnavailableEndsTheTrainingAfterTheStateTimeout) {
  if (Started(2)) return;
  const Context ctx = init();
  SaveTwo(ctx);
  setenv("DDPRUN_STATE_TIMEOUT_MS", "300", 1);
  const test::WatchedDisk disk(OwnFolder(ctx));
  if (ctx.rank() == 0) disk.FailOpening(kStep2, EHOSTDOWN);
  Training resumed(ctx, 2, kSgd);
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  EXPECT_THAT(WhyUnreadable(checkpointer, resumed),
              AllOf(HasSubstr("Host is down (errno 112, user id "), HasSubstr(", for 0.3 s")));
}

// A lost disk block in the middle of a tensor. Seen red without the second read of
// CheckpointSearch::Accept(): no error was reported.
TEST_F(CheckpointerTest, AnInputErrorInTheNewestFileLeadsToTheOlderOneOnAllRanks) {
  if (test::InRank()) {
    const Context ctx = init();
    const auto older = SaveTwo(ctx);
    const test::WatchedDisk disk(OwnFolder(ctx));
    if (ctx.rank() == 0) {
      disk.FailReads(kStep2, EIO, fs::file_size(OwnFolder(ctx) + "/" + kStep2) - 1);
    }
    Training resumed(ctx, 2, kSgd);
    Checkpointer checkpointer(ctx, OwnFolder(ctx));
    const auto state = checkpointer.load_latest(*resumed.net, *resumed.optimizer);
    ASSERT_TRUE(state);
    EXPECT_EQ(state->step, 1);
    EXPECT_TRUE(Equal(resumed.Values(), older));
    if (ctx.rank() == 0) {
      EXPECT_THAT(test::FilesIn(OwnFolder(ctx)), ElementsAre(kStep1, kStep2));
    }
    return;
  }
  const auto ranks = test::RunRanks({2, {}, {{"DDP_TEST_FOLDER", folder_.path()}}});
  for (const auto& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
  EXPECT_THAT(ranks[0].err, AllOf(HasSubstr(std::string(kStep2) + " is damaged: cannot read its"),
                                  HasSubstr("Input/output error, again after an older one")));
}

}  // namespace checkpointer_test
}  // namespace ddp
