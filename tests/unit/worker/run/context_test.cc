#include <ddp/collectives.h>
#include <ddp/context.h>
#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/worker/support/multi_rank.h"
#include "worker/src/base/time_slice.h"

namespace ddp {
namespace context_test {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::StartedRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;

void SetRank(int rank, int world_size, const std::string& port) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(world_size).c_str(), 1);
  unsetenv("LOCAL_WORLD_SIZE");
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port.c_str(), 1);
}

template <typename Exception>
std::string InitError(const Options& options) {
  try {
    init(options);
  } catch (const Exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(ContextTest, KnowsItsPlaceInTheJob) {
  if (StartedRanks(2, {{"DDPRUN_GENERATION", "3"}, {"TORCHELASTIC_RESTART_COUNT", "2"}})) return;
  const Context ctx = init();
  EXPECT_EQ(std::to_string(ctx.rank()), getenv("RANK"));
  EXPECT_EQ(ctx.world_size(), 2);
  EXPECT_EQ(ctx.local_rank(), ctx.rank());
  EXPECT_EQ(ctx.local_world_size(), 2);
  EXPECT_EQ(ctx.generation(), 3);
  EXPECT_EQ(ctx.restart_count(), 2);
  EXPECT_EQ(ctx.backend(), "gloo");
  EXPECT_TRUE(ctx.device().is_cpu());
  barrier(ctx);  // a rank that leaves at once may break the other's connecting
}

// Gloo writes to ranks that may be gone: that must be an error, not the end of the process.
TEST(ContextTest, BrokenPipesAreErrorsUnlessTheProgramHandlesThem) {
  if (StartedRanks(2)) return;
  const bool handles = std::string(getenv("RANK")) == "1";
  const auto handler = [](int) {};
  if (handles) std::signal(SIGPIPE, handler);
  const Context ctx = init();
  struct sigaction action = {};
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &action), 0);
  EXPECT_EQ(action.sa_handler, handles ? static_cast<void (*)(int)>(handler) : SIG_IGN);
  barrier(ctx);
}

TEST(ContextTest, WithoutALauncherIsAloneAndEverythingWorks) {
  if (StartedRanks(1)) return;
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    unsetenv(name);
  }
  const Context ctx = init();
  EXPECT_EQ(ctx.world_size(), 1);
  EXPECT_EQ(all_reduce_sum(ctx, 2.5), 2.5);
  EXPECT_EQ(broadcast(ctx, std::string("text")), "text");
  barrier(ctx);
}

// libtorch 1.13's own client needs more than 1000 ms if it connects before rank 0 listens.
TEST(ContextTest, ARankThatComesFirstNeedNotWaitASecond) {
  if (StartedRanks(2)) return;
  if (std::string(getenv("RANK")) == "0") {
    // Waits until rank 1 has failed once and must retry.
    const long refused_before = test::RefusedConnections();
    while (test::RefusedConnections() == refused_before) std::this_thread::yield();
    barrier(init());  // a rank that leaves at once may break the other's connecting
    return;
  }
  const auto start = steady_clock::now();
  const Context ctx = init();
  EXPECT_LT(steady_clock::now() - start, milliseconds(950));
  barrier(ctx);
}

TEST(ContextTest, GloosThreadsPreemptComputingThreadsAndTheProgramsOwnAreAsBefore) {
  if (StartedRanks(2)) return;
  const std::uint64_t usual = internal::TimeSliceOf();
  if (usual == 0) return;  // this kernel has no time slices per thread
  const auto threads = [] {
    std::set<std::string> names;
    for (const auto& one : std::filesystem::directory_iterator("/proc/self/task")) {
      names.insert(one.path().filename());
    }
    return names;
  };
  const auto before = threads();
  const Context ctx = init();
  EXPECT_EQ(internal::TimeSliceOf(), usual);
  int of_gloo = 0;
  for (const std::string& thread : threads()) {
    const std::uint64_t slice = internal::TimeSliceOf(std::stoi(thread));
    if (before.count(thread) != 0) {
      EXPECT_EQ(slice, usual);
    } else if (slice != 0 && slice < usual) {
      ++of_gloo;
    }
  }
  EXPECT_EQ(of_gloo, 3);  // one waits for the network, two run the collectives
  barrier(ctx);
}

TEST(ContextTest, UnknownAndUnavailableBackendsAreRefused) {
  Options options;
  options.backend = "mpi";
  EXPECT_THAT(InitError<ConfigError>(options), HasSubstr("'mpi', expected auto, gloo or nccl"));
  if (torch::cuda::is_available()) return;
  options.backend = "nccl";
  EXPECT_THAT(InitError<ConfigError>(options), HasSubstr("backend nccl was asked for"));
}

TEST(ContextTest, UnknownAndUnavailableDevicesAreRefused) {
  Options options;
  options.device = "tpu";
  EXPECT_THAT(InitError<ConfigError>(options), HasSubstr("'tpu', expected auto, cpu or cuda"));
  if (torch::cuda::is_available()) return;
  options.device = "cuda";
  EXPECT_THAT(InitError<ConfigError>(options), HasSubstr("device cuda was asked for, but"));
  options.device = "cpu";
  EXPECT_EQ(init(options).device(), torch::kCPU);
}

TEST(ContextTest, ATakenMasterPortIsABindErrorThatNamesIt) {
  if (StartedRanks(1)) return;
  test::HeldPort port;
  port.Listen();
  SetRank(0, 2, port.text());
  EXPECT_THAT(InitError<BindError>({}), HasSubstr("MASTER_PORT " + port.text()));
}

TEST(ContextTest, AnUnreachableRank0IsNamedWithTheTimeWaited) {
  if (StartedRanks(1)) return;
  const test::HeldPort port;
  SetRank(1, 2, port.text());
  Options options;
  options.init_timeout = milliseconds(300);
  EXPECT_THAT(InitError<CollectiveError>(options),
              AllOf(HasSubstr("127.0.0.1:" + port.text()), HasSubstr("within 0.3 s")));
}

TEST(ContextTest, MissingRanksAreNamed) {
  if (StartedRanks(1)) return;
  const test::HeldPort port;
  SetRank(0, 3, port.text());
  Options options;
  options.init_timeout = milliseconds(300);
  EXPECT_THAT(InitError<CollectiveError>(options), HasSubstr("missing: rank 1, 2"));
}

TEST(CollectivesTest, SumMeanAndBroadcastReachAllRanks) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  EXPECT_EQ(all_reduce_sum(ctx, std::int64_t{ctx.rank()}), 3);
  EXPECT_DOUBLE_EQ(all_reduce_mean(ctx, ctx.rank() + 0.5), 1.5);
  torch::Tensor tensor = torch::full({2, 3}, static_cast<float>(ctx.rank()));
  torch::Tensor column = tensor.select(1, 1);  // not contiguous
  all_reduce_mean(ctx, column);
  EXPECT_TRUE(torch::equal(tensor.select(1, 1), torch::ones(2)));
  broadcast(ctx, tensor, 2);
  EXPECT_EQ(tensor[0][0].item<float>(), 2);
  EXPECT_EQ(broadcast(ctx, "from " + std::to_string(ctx.rank()), 1), "from 1");
  EXPECT_EQ(broadcast(ctx, std::string()), "");
  torch::Tensor integers = torch::ones(2, torch::kInt64);
  EXPECT_THROW(all_reduce_mean(ctx, integers), ConfigError);
  EXPECT_EQ(all_reduce_sum(ctx, 2), 6) << "an int";
  EXPECT_EQ(all_reduce_sum(ctx, std::size_t{2}), 6);
  torch::Tensor scalar = torch::full({}, 1.5);
  broadcast(ctx, scalar, 1);
  torch::Tensor none = torch::empty({0, 3});
  broadcast(ctx, none, 1);
  EXPECT_THROW(broadcast(ctx, integers, 3), ConfigError);
  barrier(ctx);
}

TEST(CollectivesTest, EveryDtypeIsBroadcastAndWhatCannotBeAddedIsRefused) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  for (const c10::ScalarType dtype :
       {torch::kBool, torch::kInt16, torch::kBFloat16, torch::kComplexFloat, torch::kFloat64}) {
    torch::Tensor tensor = torch::full({2, 2}, ctx.rank(), torch::kFloat32).to(dtype);
    broadcast(ctx, tensor, 1);
    EXPECT_TRUE(torch::equal(tensor, torch::ones({2, 2}).to(dtype))) << dtype;
  }
  // Gloo may be unable to add them.
  for (const c10::ScalarType dtype : {torch::kBFloat16, torch::kFloat16}) {
    torch::Tensor brief = torch::full({3}, ctx.rank() + 1.0, dtype);
    all_reduce_sum(ctx, brief);
    EXPECT_TRUE(torch::equal(brief, torch::full({3}, 3.0, dtype))) << dtype;
    reduce_mean(ctx, brief, 1);
    EXPECT_EQ(brief[0].item<double>(), 3.0) << dtype;
  }
  for (const c10::ScalarType dtype : {torch::kBool, torch::kInt16, torch::kComplexFloat}) {
    torch::Tensor tensor = torch::ones({2}, dtype);
    EXPECT_THROW(all_reduce_sum(ctx, tensor), ConfigError) << dtype;
    EXPECT_THROW(reduce_sum(ctx, tensor), ConfigError) << dtype;
  }
  barrier(ctx);  // the group is still usable
}

TEST(CollectivesTest, ABarrierThatAPeerDoesNotReachTimesOut) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  if (ctx.rank() == 0) {
    EXPECT_THROW(barrier(ctx, milliseconds(100)), CollectiveError);
    _exit(::testing::Test::HasFailure() ? 1 : 0);  // the group is not usable any more
  }
  // Joins only after rank 0 has ended.
  try {
    std::vector<torch::Tensor> none;
    while (true) broadcast(ctx, std::string("x"), 1), barrier(ctx);
  } catch (const CollectiveError&) {
  }
}

TEST(CollectivesTest, AnErrorOfOneRankIsRaisedOnAllByItsName) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  throw_if_any_failed(ctx, "");
  try {
    throw_if_any_failed(ctx, ctx.rank() == 0 ? "" : "no data on " + std::to_string(ctx.rank()));
    FAIL() << "expected an AgreedError";
  } catch (const AgreedError& e) {
    EXPECT_STREQ(e.what(), "rank 1: no data on 1");
    EXPECT_EQ(e.failing_rank(), 1);
    EXPECT_EQ(e.failed_here(), ctx.rank() != 0);
  }
}

TEST(SeedTest, SameSeedSameNumbersUnlessAnOffsetIsGiven) {
  seed_everything(5);
  const torch::Tensor first = torch::rand(3);
  seed_everything(5);
  EXPECT_TRUE(torch::equal(torch::rand(3), first));
  seed_everything(5, 1);
  EXPECT_FALSE(torch::equal(torch::rand(3), first));
}

}  // namespace context_test
}  // namespace ddp
