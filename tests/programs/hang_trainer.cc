// The C++ worker of tests/chaos/hang_campaign.py: trains a small net, with a checkpoint and an
// evaluation from time to time. In the first generation one rank stops moving, in the way and at
// the place that the arguments say.
//
//   hang_trainer FOLDER FAULT PLACE RANK
//
// FAULT: none, the name of a function below, MismatchedSize, or DieAndJoinLate (the rank is killed,
// and after the restart it waits before init). PLACE: before_init, first_step, step, checkpoint,
// first_evaluation, evaluation.
//
// The trainer appends times, in ns of CLOCK_REALTIME, to files: the rank to FOLDER/fault before the
// fault, rank 0 to FOLDER/steps after each step, and each other rank to FOLDER/at_init before init.
// At the end rank 0 writes the parameters into FOLDER/result.
#include <ddp/ddp.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace {

constexpr std::int64_t kSteps = 24;
constexpr std::int64_t kFaultyStep = 12;  // a multiple of both numbers below
constexpr std::int64_t kCheckpointEvery = 4;
constexpr std::int64_t kEvaluateEvery = 6;

std::string folder;

// ---- the faults: the verdict must show these functions ----
[[gnu::noinline]] void StopItself() {
  raise(SIGSTOP);
  asm volatile("");  // so that raise() is called, and not jumped to
}

[[gnu::noinline]] void LoopForEver() {
  volatile bool forever = true;
  while (forever) {
  }
}

[[gnu::noinline]] void LockTwice() {
  static std::mutex a;
  static std::mutex b;
  std::unique_lock<std::mutex> first(a);
  std::mutex ready;
  std::unique_lock<std::mutex> taken(ready);
  std::condition_variable locked;
  bool other_has_b = false;
  std::thread([&] {
    std::unique_lock<std::mutex> second(b);
    {
      const std::unique_lock<std::mutex> tell(ready);
      other_has_b = true;
    }
    locked.notify_one();
    a.lock();
  }).detach();
  locked.wait(taken, [&] { return other_has_b; });
  b.lock();
}

[[gnu::noinline]] void SleepInLoading() {
  for (;;) sleep(1000);
}

// Waits until somebody writes a byte.
[[gnu::noinline]] void ReadFifo() {
  const int fifo = open((folder + "/fifo").c_str(), O_RDWR);  // so that open() does not wait
  char byte;
  if (read(fifo, &byte, 1) != 1) std::abort();
  close(fifo);
}

// Uses 2 s of CPU time, however long this takes.
[[gnu::noinline]] void ComputeAWhile() {
  while (std::clock() < 2 * CLOCKS_PER_SEC) {
  }
}

[[gnu::noinline]] void WriteFrozen() {
  const int file = open((folder + "/frozen/shard").c_str(), O_WRONLY | O_CREAT, 0644);
  if (file < 0 || write(file, "x", 1) != 1 || fsync(file) != 0) std::abort();
}

// The disk of the checkpoints does not answer any more. The second save after this waits for it.
[[gnu::noinline]] void SaveFrozen() {
  const int checkpoints = open((folder + "/checkpoints").c_str(), O_RDONLY);
  if (ioctl(checkpoints, FIFREEZE, 0) != 0) std::abort();
  close(checkpoints);
}

// Waits for a thread that should bring a batch. The thread has ended.
[[gnu::noinline]] void WaitForThread() {
  std::mutex mutex;
  std::condition_variable batch;
  std::thread([] {}).join();
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) batch.wait(lock);
}

const std::map<std::string, void (*)()> kFaults = {
    {"StopItself", StopItself},       {"LoopForEver", LoopForEver},
    {"LockTwice", LockTwice},         {"SleepInLoading", SleepInLoading},
    {"ReadFifo", ReadFifo},           {"WriteFrozen", WriteFrozen},
    {"WaitForThread", WaitForThread}, {"ComputeAWhile", ComputeAWhile},
    {"SaveFrozen", SaveFrozen}};

// The other ranks wait in the collective that this rank skips. The number of seconds differs from
// SleepInLoading(), because the compiler merges two functions that do the same.
[[gnu::noinline]] void SkipCollective() {
  for (;;) sleep(999);
}

// ---- the training ----
// Appends the time to a file.
void Note(const std::string& name) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string line =
      std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()) + "\n";
  std::ofstream(folder + "/" + name, std::ios::app) << line;
}

class Fault {
 public:
  Fault(std::string what, std::string place, int rank)
      : what_(std::move(what)), place_(std::move(place)), rank_(rank) {
    const char* const generation = std::getenv("DDPRUN_GENERATION");
    const char* const own = std::getenv("RANK");
    is_here_ = own != nullptr && std::stoi(own) == rank_;
    if (generation != nullptr && std::strcmp(generation, "0") == 0) return;
    if (what_ == "DieAndJoinLate" && is_here_) ReadFifo();
    what_ = "none";
  }

  // Runs the fault if `place` is its place.
  void At(const char* place) {
    if (std::strcmp(place, "before_init") == 0 && !is_here_) Note("at_init");
    if (what_ == "none" || place != place_) return;
    if (what_ == "DieAndJoinLate" && is_here_) {
      Note("fault");
      raise(SIGKILL);
    }
    if (const auto found = kFaults.find(what_); found != kFaults.end()) {
      if (!is_here_) return;
      Note("fault");
      found->second();
    }
  }

  // The faults in a collective. Each rank enters a collective here, but the faulty rank skips it or
  // enters it with another size. MoveSlowly: all ranks enter one each second, for 8 s.
  void CollectiveAt(const ddp::Context& ctx, const char* place) {
    if (place != place_) return;
    if (what_ == "MoveSlowly") return MoveSlowly(ctx);
    if (what_ != "SkipCollective" && what_ != "MismatchedSize") return;
    if (is_here_) Note("fault");
    if (is_here_ && what_ == "SkipCollective") SkipCollective();
    torch::Tensor sum = torch::zeros({is_here_ ? 3000 : 2000});
    ddp::all_reduce_sum(ctx, sum);
  }

 private:
  void MoveSlowly(const ddp::Context& ctx) const {
    if (is_here_) Note("fault");
    for (int second = 0; second < 8; ++second) {
      sleep(1);
      ddp::all_reduce_sum(ctx, 1.0);
    }
  }

  std::string what_;
  std::string place_;
  int rank_;
  bool is_here_ = false;
};

struct Net : torch::nn::Module {
  Net() {
    first = register_module("first", torch::nn::Linear(16, 32));
    second = register_module("second", torch::nn::Linear(32, 4));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(first(x))); }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
};

torch::Tensor LoadBatch(std::int64_t step, int rank) {
  torch::manual_seed(1000 * step + rank);
  return torch::randn({8, 16});
}

int Train(Fault* fault) {
  fault->At("before_init");
  const ddp::Context ctx = ddp::init();
  torch::manual_seed(1);
  const auto net = std::make_shared<Net>();
  ddp::DistributedDataParallel<Net> model(ctx, net);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  const ddp::CheckpointParts parts(model, optimizer);
  ddp::CheckpointerOptions options;
  options.save_every = kCheckpointEvery;
  ddp::Checkpointer checkpointer(ctx, folder + "/checkpoints", options);
  ddp::State state;
  if (const auto found = checkpointer.load_latest(parts)) state = *found;
  while (state.step < kSteps) {
    const bool faulty = state.step + 1 == kFaultyStep;
    if (state.step == 0) fault->At("first_step");
    if (state.step == 0) fault->CollectiveAt(ctx, "first_step");
    if (faulty) fault->At("step");
    if (faulty) fault->CollectiveAt(ctx, "step");
    const torch::Tensor batch = LoadBatch(state.step, ctx.rank());
    model.zero_grad();
    model.forward(batch).square().mean().backward();
    {
      const ddp::OptimizerStep changing(ctx);
      optimizer.step();
    }
    ++state.step;
    if (ctx.rank() == 0) Note("steps");
    if (faulty) fault->At("checkpoint");
    if (faulty) fault->CollectiveAt(ctx, "checkpoint");
    checkpointer.step(state, parts);
    if (state.step % kEvaluateEvery == 0) {
      const ddp::Phase phase(ctx, "evaluation");
      if (state.step == kEvaluateEvery) fault->At("first_evaluation");
      if (faulty) fault->At("evaluation");
      if (faulty) fault->CollectiveAt(ctx, "evaluation");
      const torch::NoGradGuard no_grad;
      ddp::all_reduce_sum(ctx, model.module().forward(batch).sum().item<double>());
    }
    usleep(50'000);
  }
  checkpointer.flush();
  if (ctx.rank() == 0) {
    std::ofstream result(folder + "/result");
    for (const torch::Tensor& parameter : net->parameters()) {
      const torch::Tensor flat = parameter.flatten().contiguous();
      result.write(static_cast<const char*>(flat.data_ptr()),
                   static_cast<std::streamsize>(flat.nbytes()));
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 64;
  folder = argv[1];
  Fault fault(argv[2], argv[3], std::stoi(argv[4]));
  return ddp::run([&] { return Train(&fault); });
}
