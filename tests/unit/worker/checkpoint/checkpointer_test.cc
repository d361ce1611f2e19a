#include <ddp/checkpointer.h>
#include <ddp/collectives.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/disk.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "worker/src/storage/durable_file.h"

namespace ddp {
namespace checkpointer_test {

namespace fs = std::filesystem;
using test::StartedRanks;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Net : torch::nn::Module {
  explicit Net(std::int64_t width = 5)
      : layer(register_module("layer", torch::nn::Linear(4, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))),
        out(register_module("out", torch::nn::Linear(width, 1))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return out(torch::dropout(norm(layer(x)), 0.5, is_training()));
  }
  torch::nn::Linear layer;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear out;
};

using MakeOptimizer = std::unique_ptr<torch::optim::Optimizer> (*)(std::vector<torch::Tensor>);

template <typename Optimizer, typename Options>
std::unique_ptr<torch::optim::Optimizer> Make(std::vector<torch::Tensor> parameters) {
  Options options(0.01);
  if constexpr (std::is_same_v<Options, torch::optim::SGDOptions>) options.momentum(0.9);
  if constexpr (std::is_same_v<Options, torch::optim::AdamOptions>) options.amsgrad(true);
  return std::make_unique<Optimizer>(parameters, options);
}

const std::vector<MakeOptimizer> kOptimizers = {
    &Make<torch::optim::SGD, torch::optim::SGDOptions>,
    &Make<torch::optim::Adam, torch::optim::AdamOptions>,
    &Make<torch::optim::AdamW, torch::optim::AdamWOptions>,
    &Make<torch::optim::RMSprop, torch::optim::RMSpropOptions>,
    &Make<torch::optim::Adagrad, torch::optim::AdagradOptions>};
constexpr MakeOptimizer kSgd = &Make<torch::optim::SGD, torch::optim::SGDOptions>;
constexpr MakeOptimizer kAdam = &Make<torch::optim::Adam, torch::optim::AdamOptions>;

// A model in training, with different dropout on each rank.
class Training {
 public:
  Training(const Context& ctx, std::uint64_t seed, MakeOptimizer make, std::int64_t width = 5)
      : net(std::make_shared<Net>(width)), model(ctx, net), optimizer(make(net->parameters())) {
    seed_everything(seed, static_cast<std::uint64_t>(ctx.rank()));
  }

  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      model.zero_grad();
      model(torch::rand({6, 4})).pow(2).mean().backward();
      optimizer->step();
    }
  }

  std::vector<torch::Tensor> Values() const {
    std::vector<torch::Tensor> values;
    for (const auto& p : net->parameters()) values.push_back(p.detach().clone());
    for (const auto& b : net->buffers()) values.push_back(b.clone());
    return values;
  }

  std::shared_ptr<Net> net;
  DistributedDataParallel<Net> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

bool Equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!torch::equal(a[i], b[i])) return false;
  }
  return true;
}

// Each rank's own folder, as on nodes without a shared disk: rank 1's never exists.
std::string OwnFolder(const Context& ctx) {
  return std::string(std::getenv("DDP_TEST_FOLDER")) + "/rank" + std::to_string(ctx.rank());
}

// What StateUnreadableError says; all ranks must throw it.
std::string WhyUnreadable(Checkpointer& checkpointer, const Training& training) {
  try {
    checkpointer.load_latest(*training.net, *training.optimizer);
  } catch (const StateUnreadableError& e) {
    return e.what();
  }
  return "it was read";
}

State At(std::int64_t step) {
  State state;
  state.step = step;
  state.epoch = 2;
  state.batch = 7;
  state.user = {{"note", "line\n\"quoted\""}};
  return state;
}

class CheckpointerTest : public ::testing::Test {
 protected:
  bool Started(int ranks) { return StartedRanks(ranks, {{"DDP_TEST_FOLDER", folder_.path()}}); }
  ddprun::TempDir folder_;
};

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
    resumed.Steps(3);  // the generators went back too, each rank's to its own state
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

    // Where none is left, training does not begin anew beside them, also not the next time.
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
  // The name of this very process: a job that is started again in a container has the old pid.
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

// The job starts afresh below them: what it saves must be there when it is started again.
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
  // Without load_latest(), nobody has looked at them.
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
  // A file where the folder should be; only rank 0 sees it.
  if (ctx.rank() == 0) std::ofstream(OwnFolder(ctx)) << "in the way";
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  try {
    checkpointer.load_latest(*training.net, *training.optimizer);
    FAIL() << "expected an AgreedError";
  } catch (const AgreedError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 0"), HasSubstr("Not a directory")));
  }
}

// ---- a state that cannot be read ----

constexpr char kStep1[] = "step-000000000001.safetensors";
constexpr char kStep2[] = "step-000000000002.safetensors";

// Two checkpoints in rank 0's folder; returns the values of the older one.
std::vector<torch::Tensor> SaveTwo(const Context& ctx) {
  Training training(ctx, 1, kSgd);
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  std::vector<torch::Tensor> older;
  for (const std::int64_t step : {1, 2}) {
    training.Steps(1);
    training.model.sync_buffers();
    if (step == 1) older = training.Values();
    checkpointer.save(At(step), *training.net, *training.optimizer);
  }
  checkpointer.flush();
  return older;
}

// Seen red when what could not be opened was skipped: step 1 was loaded.
TEST_F(CheckpointerTest, AFileThatThisUserMayNotReadEndsTheTrainingAtOnceOnAllRanks) {
  if (Started(2)) return;
  const Context ctx = init();
  SaveTwo(ctx);
  if (ctx.rank() == 0) fs::permissions(OwnFolder(ctx) + "/" + kStep2, fs::perms::none);
  barrier(ctx);
  fs::permissions(std::getenv("DDP_TEST_FOLDER"), fs::perms::all);
  const uid_t user = geteuid();
  if (user == 0) {  // who may read everything
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

// As a file server that is away for a while.
TEST_F(CheckpointerTest, AFileThatIsUnavailableForAWhileIsWaitedFor) {
  if (test::InRank()) {
    const Context ctx = init();
    SaveTwo(ctx);
    const test::WatchedDisk disk(OwnFolder(ctx));
    if (ctx.rank() == 0) {
      const auto last = fs::file_size(OwnFolder(ctx) + "/" + kStep2) - 1;
      disk.FailReads(kStep2, ETIMEDOUT, last, 2);  // while all ranks are about it
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

// A block that the disk has lost, in the middle of a tensor. Seen red without the second look of
// CheckpointSearch::Accept(): nobody was told.
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
  test::WatchedDisk disk(OwnFolder(ctx));  // only rank 0 writes to its own
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

// Seen red when the file was written from the tensors themselves.
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

// The copy of the second may only be made when the file of the first is written.
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
