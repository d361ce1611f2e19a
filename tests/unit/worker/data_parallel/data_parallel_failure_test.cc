// Tests how a DistributedDataParallel job ends when a rank fails: every rank ends, within a bound,
// with a message that names the rank and the cause.
#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace data_parallel_failure_test {

using std::chrono::seconds;
using std::chrono::steady_clock;
using test::InRank;
using test::RankResult;
using test::RunRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Options ShortTimeout() {
  Options options;
  options.timeout = seconds(2);
  return options;
}

// The process of rank 0, and a wait for its end. The constructor is a collective.
class Rank0 {
 public:
  explicit Rank0(const Context& ctx)
      : pid_(
            static_cast<pid_t>(all_reduce_sum(ctx, std::int64_t{ctx.rank() == 0 ? getpid() : 0}))) {
  }
  pid_t pid() const { return pid_; }
  void WaitForEnd() const {
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    pollfd ended = {pidfd, POLLIN, 0};
    if (pidfd >= 0) poll(&ended, 1, -1);
  }

 private:
  const pid_t pid_;
};

using Hook = std::function<void(int step)>;

// Trains until a hook, or a peer, ends it.
int TrainForever(const Context& ctx, const Hook& before_backward, const Hook& in_backward) {
  auto net = std::make_shared<torch::nn::LinearImpl>(4, 4);
  DistributedDataParallel<torch::nn::LinearImpl> model(ctx, net);
  int step = 0;
  net->weight.register_hook([&](const torch::Tensor&) { in_backward(step); });
  while (true) {
    ++step;
    model.zero_grad();
    const torch::Tensor loss = model(torch::ones({2, 4})).sum();
    before_backward(step);
    loss.backward();
  }
}

void Nothing(int) {}

constexpr seconds kBound(15);  // of a test, including the start of its processes, on a busy machine

// Seen red with a Cause() that returns only the hint: no rank is named.
TEST(DataParallelFailureTest, ARankThatNeverCallsBackwardIsNamedByAllWithinTheTimeout) {
  if (InRank()) {
    exit(run([] {
      const Context ctx = init(ShortTimeout());
      const Rank0 rank0(ctx);
      return TrainForever(
          ctx,
          [&](int step) {
            if (ctx.rank() == 1 && step == 3) rank0.WaitForEnd();
          },
          Nothing);
    }));
  }
  const auto start = steady_clock::now();
  const auto ranks = RunRanks({3, {}, {}});
  EXPECT_LT(steady_clock::now() - start, kBound);
  for (const RankResult& rank : ranks) {
    EXPECT_EQ(rank.exit_code, 1) << rank.signal;
    EXPECT_THAT(rank.err,
                HasSubstr("Rank 1 has not begun backward of step 3 since its forward ended (for"));
  }
  EXPECT_THAT(ranks[0].err, StartsWith("[rank 0] error: a collective failed: "));
  EXPECT_THAT(ranks[0].err, HasSubstr("is in backward of step 3 (for"));
}

// The results of three ranks; the last rank kills itself.
void ExpectThatTheDeathOfRank2IsNamed() {
  const auto start = steady_clock::now();
  const auto ranks = RunRanks({3, {}, {}});
  EXPECT_LT(steady_clock::now() - start, kBound);
  EXPECT_EQ(ranks[2].signal, SIGKILL);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ranks[rank].exit_code, 1) << ranks[rank].signal;
    EXPECT_THAT(ranks[rank].err, AllOf(StartsWith("[rank " + std::to_string(rank)),
                                       HasSubstr("Rank 2 has ended without a word")));
  }
}

TEST(DataParallelFailureTest, ARankThatDiesInAnAllReduceIsNamedByTheOthers) {
  if (InRank()) {
    exit(run([] {
      const Context ctx = init();
      return TrainForever(ctx, Nothing, [&](int step) {
        if (ctx.rank() == 2 && step == 3) kill(getpid(), SIGKILL);
      });
    }));
  }
  ExpectThatTheDeathOfRank2IsNamed();
}

// Rank 2 dies at the start of an all-reduce of 64 MiB, when most of them are not sent yet.
TEST(DataParallelFailureTest, ARankThatDiesInTheMiddleOfATransferIsNamedByTheOthers) {
  if (InRank()) {
    exit(run([]() -> int {
      const Context ctx = init();
      std::vector<torch::Tensor> large = {torch::ones({16 << 20})};
      barrier(ctx);
      const auto work = ctx.process_group()->allreduce(large);
      if (ctx.rank() == 2) kill(getpid(), SIGKILL);
      work->wait();
      return 0;
    }));
  }
  ExpectThatTheDeathOfRank2IsNamed();
}

TEST(DataParallelFailureTest, AProgramWithoutRunCanAskForTheCause) {
  if (InRank()) {
    try {
      const Context ctx = init();
      TrainForever(ctx, Nothing, [&](int step) {
        if (ctx.rank() == 2 && step == 3) kill(getpid(), SIGKILL);
      });
    } catch (const std::exception& e) {
      std::cerr << explain(e) << std::endl;
      std::_Exit(3);
    }
  }
  const auto ranks = RunRanks({3, {}, {}});
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ranks[rank].exit_code, 3) << ranks[rank].signal;
    EXPECT_THAT(ranks[rank].err, AllOf(StartsWith("a collective failed: "),
                                       HasSubstr("Rank 2 has ended without a word")));
  }
}

TEST(DataParallelFailureTest, TheDeathOfRankZeroIsNamedToo) {
  if (InRank()) {
    exit(run([] {
      const Context ctx = init();
      return TrainForever(ctx, Nothing, [&](int step) {
        if (ctx.rank() == 0 && step == 3) kill(getpid(), SIGKILL);
      });
    }));
  }
  const auto ranks = RunRanks({3, {}, {}});
  EXPECT_EQ(ranks[0].signal, SIGKILL);
  for (const int rank : {1, 2}) {
    EXPECT_EQ(ranks[rank].exit_code, 1) << ranks[rank].signal;
    EXPECT_THAT(ranks[rank].err, HasSubstr("Rank 0 has ended, or can no longer be reached."));
  }
}

TEST(DataParallelFailureTest, AnErrorOfOneRankIsToldToTheOthers) {
  if (InRank()) {
    exit(run([] {
      const Context ctx = init();
      return TrainForever(
          ctx,
          [&](int step) {
            if (ctx.rank() == 1 && step == 2) throw std::runtime_error("my disk is gone");
          },
          Nothing);
    }));
  }
  const auto ranks = RunRanks({3, {}, {}});
  EXPECT_EQ(ranks[1].err, "[rank 1] error: my disk is gone\n");
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ranks[rank].exit_code, 1) << ranks[rank].signal;
    EXPECT_THAT(ranks[rank].err, HasSubstr("Rank 1 failed: my disk is gone."));
  }
}

TEST(DataParallelFailureTest, ARankThatIsElsewhereIsNamedByABarrierThatTimesOut) {
  if (InRank()) {
    exit(run([]() -> int {
      const Context ctx = init();
      const Rank0 rank0(ctx);
      if (ctx.rank() == 1) rank0.WaitForEnd();
      barrier(ctx, std::chrono::milliseconds(300));
      return 0;
    }));
  }
  const auto ranks = RunRanks({2, {}, {}});
  EXPECT_EQ(ranks[0].exit_code, 1) << ranks[0].signal;
  EXPECT_THAT(ranks[0].err,
              AllOf(HasSubstr("barrier: rank 1 has not come within 0.3 s; rank 0 waits"),
                    HasSubstr("Rank 1 is outside of collectives, after all_reduce_sum")));
}

TEST(DataParallelFailureTest, ShapesThatDifferEndEveryRankWithOneLine) {
  if (InRank()) {
    exit(run([]() -> int {
      const Context ctx = init();
      auto net = std::make_shared<torch::nn::LinearImpl>(4, ctx.rank() == 1 ? 5 : 4);
      DistributedDataParallel<torch::nn::LinearImpl> model(ctx, net);
      return 0;
    }));
  }
  const auto ranks = RunRanks({3, {}, {}});
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 1);
  EXPECT_EQ(ranks[0].err + ranks[2].err, "");
  EXPECT_EQ(ranks[1].err,
            "[rank 1] error: rank 1: the model differs from rank 0's: this rank has parameter "
            "'weight' float [5, 4], rank 0 has parameter 'weight' float [4, 4]. All ranks must "
            "build the same module\n");
}

TEST(DataParallelFailureTest, SigtermEndsARankInsideBackwardAtOnce) {
  if (InRank()) {
    const Context ctx = init();
    const Rank0 rank0(ctx);
    TrainForever(
        ctx,
        [&](int step) {
          if (ctx.rank() == 0 || step < 3) return;
          // Rank 0 waits, or will soon wait, in the all-reduce that this rank does not enter.
          kill(rank0.pid(), SIGTERM);
          rank0.WaitForEnd();
          _exit(0);
        },
        Nothing);
  }
  const auto start = steady_clock::now();
  const auto ranks = RunRanks({2, {}, {}});
  EXPECT_LT(steady_clock::now() - start, kBound);
  EXPECT_EQ(ranks[0].signal, SIGTERM);
  EXPECT_EQ(ranks[1].exit_code, 0) << ranks[1].err;
}

// Each rank changes its own environment, then joins.
std::vector<RankResult> JoinWith(int world_size, const std::function<void(int rank)>& change) {
  if (InRank()) {
    change(std::atoi(std::getenv("RANK")));
    exit(run([] { return init(), 0; }));
  }
  const auto start = steady_clock::now();
  const auto ranks = RunRanks({world_size, {}, {}});
  EXPECT_LT(steady_clock::now() - start, kBound);
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 1) << rank.signal;
  return ranks;
}

TEST(JoinFailureTest, AnInterfaceThatOneRankDoesNotHaveEndsAllByName) {
  const auto ranks = JoinWith(3, [](int rank) {
    if (rank == 1) setenv("GLOO_SOCKET_IFNAME", "nosuch0", 1);
  });
  EXPECT_THAT(ranks[1].err, HasSubstr("GLOO_SOCKET_IFNAME=nosuch0: interface 'nosuch0' cannot"));
  for (const int rank : {0, 2}) {
    EXPECT_THAT(ranks[rank].err, HasSubstr("rank 1 cannot join: GLOO_SOCKET_IFNAME=nosuch0"));
  }
}

TEST(JoinFailureTest, TwoProcessesOfOneRankAreFound) {
  const auto ranks = JoinWith(3, [](int rank) {
    if (rank == 2) setenv("RANK", "1", 1);
  });
  EXPECT_THAT(ranks[0].err, HasSubstr("another process has RANK=1 as well"));
}

TEST(JoinFailureTest, WorldSizesThatDifferAreFound) {
  const auto ranks = JoinWith(2, [](int rank) {
    if (rank == 1) {
      setenv("WORLD_SIZE", "3", 1);
      setenv("LOCAL_WORLD_SIZE", "3", 1);
    }
  });
  for (const RankResult& rank : ranks) {
    EXPECT_THAT(rank.err, AllOf(HasSubstr("WORLD_SIZE="), HasSubstr("a different one")));
  }
}

}  // namespace data_parallel_failure_test
}  // namespace ddp
