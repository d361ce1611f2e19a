// Tests snapshots in memory, restarts from snapshots, and checkpoints that the agent requests. Each
// part of a job runs in processes of its own; LOCAL_RANK divides the ranks into nodes.
#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/types.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "worker/src/storage/checkpoint_folder.h"

namespace ddp {
namespace snapshot_test {

namespace fs = std::filesystem;
using test::RankResult;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Env(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A state larger than a chunk, with several dtypes, an empty tensor, a tensor with another memory
// order, buffers that differ between ranks, and dropout.
struct Net : torch::nn::Module {
  Net()
      : layer(register_module("layer", torch::nn::Linear(300, 4001))),
        norm(register_module("norm", torch::nn::BatchNorm1d(4001))),
        out(register_module("out", torch::nn::Linear(4001, 3))),
        turned(register_parameter("turned", torch::rand({3, 500}).t())) {
    register_buffer("nothing", torch::empty({0, 4}));
    register_buffer("flags", torch::tensor({true, false, true}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor hidden = torch::dropout(norm(layer(x)), 0.5, is_training());
    return out(hidden) + turned.sum(0);
  }
  torch::nn::Linear layer;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear out;
  torch::Tensor turned;
};

constexpr int kRanksPerNode = 2;
constexpr int kMoreSteps = 4;    // after the newest snapshot
constexpr int kDurableStep = 2;  // of the checkpoint in rank 0's folder

int Node(int rank) { return rank / kRanksPerNode; }

std::string Folder(const std::string& kind, int node) {
  return Env("DDP_TEST_FOLDER") + "/" + kind + std::to_string(node);
}

// This rank is on a node with two ranks and a snapshot folder of its own.
Context InitOnANode() {
  const int rank = std::stoi(Env("RANK"));
  setenv("LOCAL_RANK", std::to_string(rank % kRanksPerNode).c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", std::to_string(kRanksPerNode).c_str(), 1);
  setenv("DDPRUN_SNAPSHOT_DIR", Folder("memory", Node(rank)).c_str(), 1);
  return init();
}

std::shared_ptr<Net> MakeNet() {
  seed_everything(1);
  return std::make_shared<Net>();
}

class Training {
 public:
  explicit Training(const Context& ctx)
      : net(MakeNet()),
        model(ctx, net),
        optimizer(net->parameters(), torch::optim::AdamOptions(0.01)),
        parts(model, optimizer) {
    seed_everything(3, static_cast<std::uint64_t>(ctx.rank()));
  }

  void Step() {
    model.zero_grad();
    model(torch::rand({4, 300})).pow(2).mean().backward();
    optimizer.step();
    ++state.step;
  }

  // Changes with any bit of a parameter, a buffer, or this rank's generator.
  std::string Fingerprint() const {
    std::string bytes;
    const auto add = [&](const torch::Tensor& tensor) {
      const torch::Tensor flat = tensor.detach().contiguous();
      bytes.append(static_cast<const char*>(flat.data_ptr()), flat.nbytes());
    };
    for (const torch::Tensor& parameter : net->parameters()) add(parameter);
    for (const torch::Tensor& buffer : net->buffers()) add(buffer);
    add(torch::rand({8}));
    return std::to_string(std::hash<std::string>()(bytes));
  }

  std::shared_ptr<Net> net;
  DistributedDataParallel<Net> model;
  torch::optim::Adam optimizer;
  CheckpointParts parts;
  State state;
};

void Write(const std::string& name, const std::string& text) {
  std::ofstream(Env("DDP_TEST_FOLDER") + "/" + name + Env("RANK")) << text;
}

CheckpointerOptions SnapshotInEachStep() {
  CheckpointerOptions options;
  options.snapshot_every = 1;
  return options;
}

// Trains until each node has a snapshot of a step after the checkpoint's, and some steps further.
void Train(const Context& ctx, Training* training, Checkpointer* checkpointer) {
  const auto step = [&] {
    training->Step();
    checkpointer->step(training->state, training->parts);
    if (training->state.step == kDurableStep) checkpointer->save(training->state, training->parts);
  };
  for (std::int64_t nodes = 0; nodes < ctx.world_size() / kRanksPerNode;) {
    step();
    const bool done = ctx.local_rank() == 0 && checkpointer->status().snapshot_step > kDurableStep;
    nodes = all_reduce_sum(ctx, std::int64_t{done ? 1 : 0});
  }
}

void Resume(const Context& ctx, Training* training, Checkpointer* checkpointer) {
  const std::optional<State> found = checkpointer->load_latest(training->parts);
  if (found) training->state = *found;
  Write("from", !found ? "the start"
                       : std::to_string(found->step) + " " +
                             fs::path(found->path).parent_path().filename().string());
  const int end = std::stoi(Env("DDP_TEST_END"));
  while (training->state.step < end) training->Step();
  Write("end", training->Fingerprint());
  verify_replicas(ctx, *training->net);
}

int RunRank() {
  return run([] {
    const Context ctx = InitOnANode();
    Training training(ctx);
    Checkpointer checkpointer(ctx, Folder("durable", Node(ctx.rank())), SnapshotInEachStep());
    if (Env("DDP_TEST_PART") == "train") {
      Train(ctx, &training, &checkpointer);
    } else {
      Resume(ctx, &training, &checkpointer);
    }
    return 0;
  });
}

class SnapshotTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;

  std::string Path(const std::string& kind, int node) const {
    return folder_ / (kind + std::to_string(node));
  }

  std::vector<RankResult> RunPart(const std::string& part, test::Environment environment = {}) {
    return RunPartIn(folder_.path(), part, std::move(environment));
  }
  static std::vector<RankResult> RunPartIn(const std::string& folder, const std::string& part,
                                           test::Environment environment) {
    environment["DDP_TEST_FOLDER"] = folder;
    environment["DDP_TEST_PART"] = part;
    auto results = test::RunRanks({kRanks, {}, environment});
    for (const auto& rank : results) EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
    return results;
  }

  // The remains of a killed job, and the result of an undisturbed one: made once for all tests.
  struct FirstPart {
    ddprun::TempDir folder;
    std::vector<std::int64_t> steps;  // of the snapshots, newest first
    std::vector<std::string> undisturbed;
  };
  static void Make(FirstPart* into) {
    FirstPart& first = *into;
    for (const char* node : {"memory0", "memory1"}) fs::create_directories(first.folder / node);
    for (const RankResult& rank : RunPartIn(first.folder.path(), "train", {})) {
      EXPECT_EQ(rank.err, "");
    }
    first.steps = Steps(first.folder / "memory0");
    EXPECT_THAT(first.steps, ::testing::Not(::testing::IsEmpty()));
    EXPECT_EQ(Steps(first.folder / "memory1"), first.steps) << "of the same steps on all nodes";
    if (first.steps.empty()) return;
    const std::string end = std::to_string(first.steps.front() + kMoreSteps);
    RunPartIn(first.folder.path(), "resume",
              {{"DDPRUN_RESTORE_TIER", "none"}, {"DDP_TEST_END", end}});
    EXPECT_THAT(Written(first.folder.path(), "from"), ::testing::Each("the start"));
    first.undisturbed = Written(first.folder.path(), "end");
  }
  void RunFirstPart() {
    static FirstPart first;
    if (first.undisturbed.empty()) Make(&first);
    ASSERT_FALSE(first.steps.empty());
    steps_ = first.steps;
    undisturbed_ = first.undisturbed;
    fs::copy(first.folder.path(), folder_.path(), fs::copy_options::recursive);
  }

  // The steps of the files in a folder, newest first.
  static std::vector<std::int64_t> Steps(const std::string& folder) {
    std::vector<std::int64_t> steps;
    internal::CheckpointSearch search(0, {folder});
    while (search.Next() == internal::CheckpointSearch::Result::kFound) {
      steps.push_back(std::stoll(search.file().metadata().at("step")));
    }
    return steps;
  }
  std::int64_t newest() const { return steps_.front(); }

  // The restore plan, and the step to train to.
  test::Environment Order(const std::string& tier, std::int64_t step, int rank) const {
    return {{"DDPRUN_RESTORE_TIER", tier},
            {"DDPRUN_RESTORE_STEP", std::to_string(step)},
            {"DDPRUN_RESTORE_RANK", std::to_string(rank)},
            {"DDP_TEST_END", std::to_string(newest() + kMoreSteps)}};
  }

  std::vector<std::string> Written(const std::string& name) const {
    return Written(folder_.path(), name);
  }
  static std::vector<std::string> Written(const std::string& folder, const std::string& name) {
    std::vector<std::string> texts;
    for (int rank = 0; rank < kRanks; ++rank) {
      texts.push_back(test::ReadFile(folder + "/" + name + std::to_string(rank)));
    }
    return texts;
  }

  // Resumes, and checks that all ranks resume from `from` and end like an undisturbed training.
  std::vector<RankResult> ExpectResumed(const test::Environment& order, const std::string& from) {
    auto results = RunPart("resume", order);
    EXPECT_THAT(Written("from"), ::testing::Each(from));
    EXPECT_EQ(Written("end"), undisturbed_);
    return results;
  }

  static void Damage(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file << "!";
  }

  ddprun::TempDir folder_;
  std::vector<std::int64_t> steps_;  // of the first part of the job
  std::vector<std::string> undisturbed_;
};

TEST_F(SnapshotTest, ARestartGoesOnFromRankZerosMemoryAsIfNothingHadHappened) {
  if (test::InRank()) exit(RunRank());
  RunFirstPart();
  ExpectResumed(Order("memory", newest(), 0), std::to_string(newest()) + " memory0");
}

TEST_F(SnapshotTest, Node1GivesItsStateToAllWhenNode0IsLostWithItsDisk) {
  if (test::InRank()) exit(RunRank());
  RunFirstPart();
  fs::remove_all(Path("memory", 0));
  fs::create_directories(Path("memory", 0));
  fs::remove_all(Path("durable", 0));
  ExpectResumed(Order("memory", newest(), 2), std::to_string(newest()) + " memory1");
}

TEST_F(SnapshotTest, ADamagedSnapshotIsNamedAndTheNextOlderStateIsTakenByAll) {
  if (test::InRank()) exit(RunRank());
  RunFirstPart();
  const std::string path = Path("memory", 1) + "/" + internal::CheckpointName(newest());
  Damage(path);
  // On a slow disk each node has one snapshot. Then rank 0's folder is searched, as in the next
  // test.
  const bool another = steps_.size() > 1;
  const std::string older = another ? std::to_string(steps_[1]) : "";
  const auto ranks =
      ExpectResumed(Order("memory", newest(), 2),
                    another ? older + " memory1" : std::to_string(newest()) + " memory0");
  EXPECT_THAT(ranks[2].err, AllOf(HasSubstr("[rank 2] warning: checkpoint " + path),
                                  HasSubstr("has a wrong hash"), HasSubstr(".corrupt")));
  if (another) {
    EXPECT_THAT(ranks[0].err, HasSubstr("is not usable; they begin with step " + older));
  }
}

TEST_F(SnapshotTest, WhereTheSourceHasNothingLeftRankZerosFolderIsSearched) {
  if (test::InRank()) exit(RunRank());
  RunFirstPart();
  for (const auto& entry : fs::directory_iterator(Path("memory", 1))) Damage(entry.path());
  fs::remove_all(Path("memory", 0));
  fs::create_directories(Path("memory", 0));
  ExpectResumed(Order("memory", newest(), 2), std::to_string(kDurableStep) + " durable0");
}

// Seen red when the training began at step 0.
TEST_F(SnapshotTest, WhereNothingIsLeftThePlanCannotBeCarriedOutAndTheJobEnds) {
  if (test::InRank()) exit(RunRank());
  RunFirstPart();
  for (const int node : {0, 1}) {
    fs::remove_all(Path("memory", node));
    fs::create_directories(Path("memory", node));
    fs::remove_all(Path("durable", node));
  }
  test::Environment order = Order("memory", newest(), 2);
  order["DDP_TEST_FOLDER"] = folder_.path();
  order["DDP_TEST_PART"] = "resume";
  const auto ranks = test::RunRanks({kRanks, {}, order});
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 1) << rank.err;
  EXPECT_THAT(ranks[0].err,
              HasSubstr("[rank 0] error: rank 0: the state of step " + std::to_string(newest()) +
                        ", with which all ranks were to "
                        "begin, cannot be loaded, and no older one either"));
}

TEST_F(SnapshotTest, AFileThatCannotBeReadDoesNotCountWhereItIsOlderThanTheState) {
  if (test::InRank()) exit(RunRank());
  RunFirstPart();
  const std::string loop = Path("durable", 0) + "/" + internal::CheckpointName(kDurableStep);
  fs::remove(loop);
  fs::create_symlink(loop, loop);  // not even root can open it
  ExpectResumed(Order("memory", newest(), 0), std::to_string(newest()) + " memory0");
}

// Any node may have had rank 0 before, and so its checkpoints.
TEST_F(SnapshotTest, AFolderOfAnyNodeThatCannotBeListedMayHoldTheNewestState) {
  if (test::InRank()) exit(RunRank());
  RunFirstPart();
  fs::remove_all(Path("durable", 1));
  std::ofstream(Path("durable", 1)) << "in the way";
  test::Environment order = Order("memory", newest(), 0);
  order["DDP_TEST_FOLDER"] = folder_.path();
  order["DDP_TEST_PART"] = "resume";
  order["DDPRUN_STATE_TIMEOUT_MS"] = "200";
  const auto ranks = test::RunRanks({kRanks, {}, order});
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 1) << rank.err;
  EXPECT_THAT(
      ranks[2].err,
      AllOf(HasSubstr("warning: rank 2: " + Path("durable", 1) + ": cannot list it"),
            HasSubstr("error: rank 2: " + Path("durable", 1) + ": cannot list it: Not a ")));
}

// A checkpoint that was reported, although no agent could read it when the plan was made. Seen red
// without LoadUnseen().
TEST_F(SnapshotTest, AnUnseenCheckpointIsLookedForBeforeThePlannedState) {
  if (test::InRank()) exit(RunRank());
  RunFirstPart();
  test::Environment order = Order("memory", newest(), 2);
  order["DDPRUN_RESTORE_UNSEEN"] = std::to_string(kDurableStep) + " 0 -1 -1";
  ExpectResumed(order, std::to_string(kDurableStep) + " durable0");
}

// Node 0's folder can be read again, and has another checkpoint.
TEST_F(SnapshotTest, WhereTheUnseenCheckpointIsNotThePlanIsCarriedOut) {
  if (test::InRank()) exit(RunRank());
  RunFirstPart();
  const std::string loop = Path("durable", 0) + "/" + internal::CheckpointName(kDurableStep);
  fs::remove(loop);
  fs::create_symlink(loop, loop);  // it cannot be read, but has another step
  test::Environment order = Order("memory", newest(), 2);
  order["DDPRUN_RESTORE_UNSEEN"] = std::to_string(kDurableStep + 1) + " 0 -1 -1";
  ExpectResumed(order, std::to_string(newest()) + " memory1");
}

TEST_F(SnapshotTest, AnOrderForTheDiskIsFollowed) {
  if (test::InRank()) exit(RunRank());
  RunFirstPart();
  ExpectResumed(Order("durable", kDurableStep, 0), std::to_string(kDurableStep) + " durable0");
}

// The agent's end of this rank's control socket.
class Agent {
 public:
  Agent() : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const std::string path = Env("DDP_TEST_FOLDER") + "/socket" + Env("RANK");
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) abort();
    if (listen(listener_, 1) != 0) abort();
    setenv("DDPRUN_CONTROL_SOCKET", path.c_str(), 1);
  }
  // Call it after init().
  void AskForASave() {
    Accept();
    if (send(connection_, "SAVE=1", 6, 0) != 6) abort();
  }
  // Waits for a message that begins like this. If none comes, the test's time limit ends the test.
  void Await(const std::string& begin) {
    Accept();
    char packet[8192];
    for (;;) {
      const ssize_t size = recv(connection_, packet, sizeof packet, 0);
      if (size <= 0) abort();
      if (std::string(packet, static_cast<std::size_t>(size)).rfind(begin, 0) == 0) return;
    }
  }

 private:
  void Accept() {
    if (connection_ < 0) connection_ = accept(listener_, nullptr, nullptr);
  }

  const int listener_;
  int connection_ = -1;
};

TEST_F(SnapshotTest, WithoutRoomTrainingGoesOnAndEachNodeSaysSoOnce) {
  if (test::InRank()) {
    exit(run([] {
      Agent agent;
      const Context ctx = InitOnANode();  // its folder is missing
      Training training(ctx);
      Checkpointer checkpointer(ctx, "", SnapshotInEachStep());
      for (int i = 0; i < 5; ++i) {
        training.Step();
        checkpointer.step(training.state, training.parts);
      }
      if (ctx.local_rank() == 0) agent.Await("SNAPSHOT_FAILED=");
      return checkpointer.status().snapshot_step == -1 ? 0 : 2;
    }));
  }
  const auto ranks = RunPart("");
  EXPECT_EQ(test::CountInErr(ranks, "no snapshots in memory any more on this node"), 2);
  EXPECT_THAT(ranks[2].err, HasSubstr("[rank 2] warning: no snapshots"));
}

// ---- checkpoints requested by the agent ----

TEST_F(SnapshotTest, WhenTheAgentAsksForASaveAllRanksMakeOneOfTheSameStep) {
  if (test::InRank()) {
    exit(run([] {
      Agent agent;
      const Context ctx = InitOnANode();
      Training training(ctx);
      Checkpointer checkpointer(ctx, Folder("durable", 0));
      std::vector<std::int64_t> saved;
      for (int i = 1; i <= 12; ++i) {
        training.Step();
        // One request reaches the ranks at different times; then another one follows.
        if (i == 3 + ctx.rank() % 2 || i == 9) agent.AskForASave();
        checkpointer.step(training.state, training.parts);
        const SaveStatus status = checkpointer.flush();
        if (saved.empty() || saved.back() != status.durable_step) {
          saved.push_back(status.durable_step);
        }
      }
      std::string text;
      for (const std::int64_t step : saved) text += std::to_string(step) + " ";
      Write("saved", text);
      return 0;
    }));
  }
  RunPart("");
  EXPECT_THAT(Written("saved"), ::testing::Each("-1 4 10 "));
  EXPECT_THAT(test::FilesIn(Path("durable", 0)),
              ElementsAre(internal::CheckpointName(4), internal::CheckpointName(10)));
}

TEST_F(SnapshotTest, AJobOfOneProcessSavesAtOnce) {
  if (test::InRank()) {
    exit(run([] {
      Agent agent;
      const Context ctx = init();
      Training training(ctx);
      Checkpointer checkpointer(ctx, Folder("durable", 0));
      for (int i = 1; i <= 3; ++i) {
        training.Step();
        if (i == 2) agent.AskForASave();
        checkpointer.step(training.state, training.parts);
      }
      return checkpointer.flush().durable_step == 2 ? 0 : 2;
    }));
  }
  const auto ranks = test::RunRanks({1, {}, {{"DDP_TEST_FOLDER", folder_.path()}}});
  EXPECT_EQ(ranks[0].exit_code, 0) << ranks[0].err;
}

TEST_F(SnapshotTest, StepsThatAreDueAreSaved) {
  if (test::InRank()) {
    exit(run([] {
      const Context ctx = init();
      Training training(ctx);
      CheckpointerOptions options;
      options.save_every = 3;
      options.keep_last = 5;
      Checkpointer checkpointer(ctx, Folder("durable", 0), options);
      for (int i = 1; i <= 7; ++i) {
        training.Step();
        checkpointer.step(training.state, training.parts);
      }
      return 0;
    }));
  }
  for (const RankResult& rank : RunPart("")) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  EXPECT_THAT(test::FilesIn(Path("durable", 0)),
              ElementsAre(internal::CheckpointName(3), internal::CheckpointName(6)));
}

}  // namespace snapshot_test
}  // namespace ddp
