#include <ddp/checkpointer.h>
#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/worker/checkpoint/checkpointer_training.h"
#include "tests/unit/worker/support/disk.h"
#include "worker/src/storage/durable_file.h"

namespace ddp {
namespace checkpointer_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(CheckpointerTest, ResumedTrainingGoesOnBitForBitWithEveryOptimizer) {
  if (Started(2)) return;
  const Context ctx = init();
  for (std::size_t i = 0; i < kOptimizers.size(); ++i) {
    Checkpointer checkpointer(ctx, OwnFolder(ctx) + "/" + std::to_string(i));
    Training original(ctx, 1, kOptimizers[i]);
    original.Steps(3);
    original.model.sync_buffers();
    const std::string path = checkpointer.save(At(3), *original.net, *original.optimizer);
    const auto saved = original.Values();
    original.Steps(3);

    Training resumed(ctx, 99, kOptimizers[i]);
    const std::optional<State> state = checkpointer.load_latest(*resumed.net, *resumed.optimizer);
    ASSERT_TRUE(state);
    EXPECT_EQ(state->step, 3);
    EXPECT_EQ(state->epoch, 2);
    EXPECT_EQ(state->batch, 7);
    EXPECT_EQ(state->user, At(3).user);
    EXPECT_EQ(state->world_size, 2);
    EXPECT_THAT(state->path, HasSubstr("rank0/" + std::to_string(i) + "/step-000000000003.safe"));
    EXPECT_TRUE(Equal(resumed.Values(), saved)) << i;
    resumed.Steps(3);  // the generators are restored too, each rank's own
    EXPECT_TRUE(Equal(resumed.Values(), original.Values())) << i;
    if (ctx.rank() == 0) {
      EXPECT_EQ(path, state->path);
    }
  }
  EXPECT_EQ(fs::exists(OwnFolder(ctx)), ctx.rank() == 0);
}

TEST_F(CheckpointerTest, WithoutAFileNothingIsLoadedOrChanged) {
  if (Started(2)) return;
  const Context ctx = init();
  Training training(ctx, 1, kAdam);
  const auto before = training.Values();
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  EXPECT_FALSE(checkpointer.load_latest(*training.net, *training.optimizer));
  EXPECT_TRUE(Equal(training.Values(), before));
}

TEST_F(CheckpointerTest, ADamagedNewestFileIsReportedAndTheOlderOneTakenOnAllRanks) {
  if (test::InRank()) {
    const Context ctx = init();
    Training training(ctx, 1, kSgd);
    Checkpointer checkpointer(ctx, OwnFolder(ctx));
    training.Steps(1);
    training.model.sync_buffers();
    checkpointer.save(At(1), *training.net, *training.optimizer);
    const auto older = training.Values();
    training.Steps(1);
    const std::string newest = checkpointer.save(At(2), *training.net, *training.optimizer);
    EXPECT_EQ(checkpointer.flush().durable_step, 2);
    if (ctx.rank() == 0) {
      std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-3, std::ios::end);
      file.put('\x55');
    }
    Training resumed(ctx, 2, kSgd);
    const std::optional<State> state = checkpointer.load_latest(*resumed.net, *resumed.optimizer);
    ASSERT_TRUE(state);
    EXPECT_EQ(state->step, 1);
    EXPECT_TRUE(Equal(resumed.Values(), older));

    // If only damaged files are left, training must not begin at step 0: neither now nor at the
    // next start.
    if (ctx.rank() == 0) fs::resize_file(OwnFolder(ctx) + "/step-000000000001.safetensors", 100);
    for (const char* reason : {"too short", "found damaged before"}) {
      EXPECT_THAT(WhyUnreadable(checkpointer, resumed),
                  AllOf(HasSubstr("rank 0: there are checkpoints, and none of them can be loaded"),
                        HasSubstr(reason), HasSubstr("--start-anew")));
    }
    return;
  }
  const auto ranks = test::RunRanks({2, {}, {{"DDP_TEST_FOLDER", folder_.path()}}});
  for (const auto& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
  EXPECT_THAT(ranks[0].err, AllOf(HasSubstr("step-000000000002.safetensors is damaged: tensor"),
                                  HasSubstr("has a wrong hash"), HasSubstr("too short")));
  EXPECT_EQ(ranks[1].err, "");
}

TEST_F(CheckpointerTest, KeepsTheNewestFilesAndRemovesWhatAKilledWriterLeft) {
  if (Started(1)) return;
  const Context ctx = init();
  Training training(ctx, 1, kSgd);
  CheckpointerOptions options;
  options.keep_last = 2;
  Checkpointer checkpointer(ctx, OwnFolder(ctx), options);
  for (const std::int64_t step : {5, 10, 20}) {
    checkpointer.save(At(step), *training.net, *training.optimizer);
  }
  checkpointer.flush();
  // The temporary name has the pid of this process: a job restarted in a container has its old pid.
  std::ofstream(internal::TemporaryPath(OwnFolder(ctx) + "/step-000000000030.safetensors"))
      << "half";
  const std::string other_job = "step-000000000031.safetensors.elsewhere-1-1.tmp";
  std::ofstream(OwnFolder(ctx) + "/" + other_job) << "half";
  std::ofstream(OwnFolder(ctx) + "/notes.txt") << "the user's";
  checkpointer.save(At(40), *training.net, *training.optimizer);
  checkpointer.flush();
  EXPECT_THAT(test::FilesIn(OwnFolder(ctx)),
              ElementsAre("notes.txt", "step-000000000020.safetensors", other_job,
                          "step-000000000040.safetensors"));
  options.keep_last = 0;
  EXPECT_THROW(Checkpointer(ctx, "x", options), ConfigError);
  options.keep_last = 1;
  options.keep_every = -1;
  EXPECT_THROW(Checkpointer(ctx, "x", options), ConfigError);
}

// The job begins at a step below those of the damaged files. The next start must find its saves.
TEST_F(CheckpointerTest, UnreadableNewerFilesDoNotCostTheFilesJustSaved) {
  if (Started(1)) return;
  const Context ctx = init();
  Training training(ctx, 1, kSgd);
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  for (const std::int64_t step : {800, 900}) {
    const std::string path = checkpointer.save(At(step), *training.net, *training.optimizer);
    checkpointer.flush();
    fs::resize_file(path, 100);
  }
  // Without load_latest(), no search has seen these files.
  checkpointer.save(At(1), *training.net, *training.optimizer);
  checkpointer.save(At(2), *training.net, *training.optimizer);
  const auto state = checkpointer.load_latest(*training.net, *training.optimizer);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->step, 2);
  checkpointer.save(At(3), *training.net, *training.optimizer);
  checkpointer.flush();
  EXPECT_THAT(test::FilesIn(OwnFolder(ctx)),
              ElementsAre("step-000000000002.safetensors", "step-000000000003.safetensors",
                          "step-000000000800.safetensors.corrupt",
                          "step-000000000900.safetensors.corrupt"));
}

TEST_F(CheckpointerTest, AnErrorOfRank0IsRaisedOnEveryRank) {
  if (Started(2)) return;
  const Context ctx = init();
  Training training(ctx, 1, kSgd);
  setenv("DDPRUN_STATE_TIMEOUT_MS", "0", 1);
  // A file in the place of the folder; only rank 0 sees it.
  if (ctx.rank() == 0) std::ofstream(OwnFolder(ctx)) << "in the way";
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  try {
    checkpointer.load_latest(*training.net, *training.optimizer);
    FAIL() << "expected an AgreedError";
  } catch (const AgreedError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 0"), HasSubstr("Not a directory")));
  }
}

TEST_F(CheckpointerTest, ATrainingThatBeginsAnewLoadsNothingAndLeavesWhatIsThere) {
  if (Started(2)) return;
  const Context ctx = init();
  setenv("DDPRUN_JOB_RUN_ID", "00000000000000aa", 1);
  SaveTwo(ctx);
  setenv("DDPRUN_JOB_RUN_ID", "00000000000000bb", 1);
  setenv("DDPRUN_TAKE_FOLDER", "1", 1);
  setenv("DDPRUN_ANEW", "1", 1);
  Training training(ctx, 2, kSgd);
  CheckpointerOptions options;
  options.keep_last = 1;
  Checkpointer checkpointer(ctx, OwnFolder(ctx), options);
  EXPECT_FALSE(checkpointer.load_latest(*training.net, *training.optimizer));
  for (const std::int64_t step : {3, 4}) {
    checkpointer.save(At(step), *training.net, *training.optimizer);
  }
  checkpointer.flush();
  if (ctx.rank() == 0) {
    EXPECT_THAT(test::FilesIn(OwnFolder(ctx)),
                ElementsAre(kStep1, kStep2, "step-000000000004.safetensors"));
  }
  const auto state = checkpointer.load_latest(*training.net, *training.optimizer);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->step, 4) << "its own";
}

// Seen red when save() threw AgreedError on every rank, as it did while it was synchronous.
TEST_F(CheckpointerTest, TrainingGoesOnWhereTheDiskFailsAndEveryRankKnows) {
  if (Started(2)) return;
  const Context ctx = init();
  Training training(ctx, 1, kSgd);
  test::WatchedDisk disk(OwnFolder(ctx));  // only rank 0 writes to its folder
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  checkpointer.save(At(1), *training.net, *training.optimizer);
  EXPECT_EQ(checkpointer.flush().error, "");
  disk.Fail(test::DiskCall::Kind::kWrite, ENOSPC);
  for (const std::int64_t step : {2, 3}) {
    training.Steps(1);
    checkpointer.save(At(step), *training.net, *training.optimizer);
  }
  SaveStatus status = checkpointer.flush();
  EXPECT_EQ(status.saved, 1);
  EXPECT_EQ(status.failed, 2);
  EXPECT_EQ(status.durable_step, 1);
  EXPECT_THAT(status.durable_path, HasSubstr("rank0/step-000000000001.safetensors"));
  EXPECT_THAT(status.error, HasSubstr("No space left on device"));
  disk.Fail(test::DiskCall::Kind::kWrite, 0);
  checkpointer.save(At(4), *training.net, *training.optimizer);
  status = checkpointer.flush();
  EXPECT_EQ(status.saved, 2);
  EXPECT_EQ(status.failed, 2);
  EXPECT_EQ(status.error, "");
  EXPECT_EQ(checkpointer.status().durable_step, 4);
}

// Seen red when the file was written directly from the tensors.
TEST_F(CheckpointerTest, TheFileHasTheStateOfTheSaveThoughTrainingGoesOn) {
  if (Started(2)) return;
  const Context ctx = init();
  Training training(ctx, 1, kAdam);
  training.Steps(1);
  training.model.sync_buffers();
  test::WatchedDisk disk(OwnFolder(ctx));
  disk.Hold(test::DiskCall::Kind::kCreate);
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  checkpointer.save(At(1), *training.net, *training.optimizer);
  EXPECT_TRUE(checkpointer.status().writing);
  const auto saved = training.Values();
  training.Steps(2);  // while not a byte is on disk
  disk.Release();
  Training resumed(ctx, 2, kAdam);
  ASSERT_TRUE(checkpointer.load_latest(*resumed.net, *resumed.optimizer)) << "it waits";
  EXPECT_TRUE(Equal(resumed.Values(), saved));
}

TEST_F(CheckpointerTest, ASaveThatFindsTheLastOneUnfinishedIsSkippedOnEveryRankIfSoChosen) {
  if (Started(2)) return;
  const Context ctx = init();
  Training training(ctx, 1, kSgd);
  test::WatchedDisk disk(OwnFolder(ctx));
  disk.Hold(test::DiskCall::Kind::kCreate);
  CheckpointerOptions options;
  options.when_busy = WhenBusy::kSkip;
  Checkpointer checkpointer(ctx, OwnFolder(ctx), options);
  const auto save = [&](std::int64_t step) {
    return checkpointer.save(At(step), *training.net, *training.optimizer);
  };
  EXPECT_THAT(save(1), HasSubstr("step-000000000001"));
  EXPECT_EQ(save(2), "");
  EXPECT_EQ(save(3), "");
  disk.Release();
  EXPECT_EQ(checkpointer.flush().skipped, 2);
  EXPECT_THAT(save(4), HasSubstr("step-000000000004"));
  const SaveStatus status = checkpointer.flush();
  EXPECT_EQ(status.saved, 2);
  EXPECT_EQ(status.skipped, 2);
  EXPECT_EQ(status.durable_step, 4);
}

// The copy for the second save may begin only when the first file is written.
TEST_F(CheckpointerTest, ASaveThatFindsTheLastOneUnfinishedWaitsIfSoChosen) {
  if (Started(1)) return;
  const Context ctx = init();
  Training training(ctx, 1, kSgd);
  test::WatchedDisk disk(OwnFolder(ctx));
  disk.Hold(test::DiskCall::Kind::kCreate);
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  checkpointer.save(At(1), *training.net, *training.optimizer);
  const auto first = training.Values();
  training.Steps(1);
  auto second = std::async(std::launch::async, [&] {
    return checkpointer.save(At(2), *training.net, *training.optimizer);
  });
  disk.Release();
  EXPECT_THAT(second.get(), HasSubstr("step-000000000002"));
  EXPECT_EQ(checkpointer.flush().saved, 2);
  fs::remove(OwnFolder(ctx) + "/step-000000000002.safetensors");
  Training resumed(ctx, 2, kSgd);
  ASSERT_TRUE(checkpointer.load_latest(*resumed.net, *resumed.optimizer));
  EXPECT_TRUE(Equal(resumed.Values(), first));
}

TEST_F(CheckpointerTest, AFileThatDoesNotFitIsRaisedOnEveryRankAndChangesNothing) {
  if (Started(2)) return;
  const Context ctx = init();
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  Training saved(ctx, 1, kAdam);
  saved.Steps(1);
  checkpointer.save(At(1), *saved.net, *saved.optimizer);

  Training wider(ctx, 1, kAdam, 6);
  const auto before = wider.Values();
  try {
    checkpointer.load_latest(*wider.net, *wider.optimizer);
    FAIL() << "expected an AgreedError";
  } catch (const AgreedError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("layer.bias as float [5], the model has float [6]"),
                                HasSubstr("step-000000000001")));
  }
  EXPECT_TRUE(Equal(wider.Values(), before));

  Training other(ctx, 1, kSgd);
  try {
    checkpointer.load_latest(*other.net, *other.optimizer);
    FAIL() << "expected an AgreedError";
  } catch (const AgreedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("optim.0.exp_avg"));
  }
}

}  // namespace checkpointer_test
}  // namespace ddp
