#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <string>
#include <system_error>

#include "tests/support/sanitizer.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "tests/unit/worker/support/regrouping_agent.h"
#include "worker/src/agent/control_client.h"

namespace ddp {
namespace run_in_place_test {

using test::Environment;
using test::InRank;
using test::RankResult;
using test::RegroupingAgent;
using test::RunRanks;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Ends the rank with this code without gtest, which would print.
[[noreturn]] void End(int code) {
  std::cout.flush();
  std::_Exit(code);
}

void ExpectAllEndedWell(const std::vector<RankResult>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(ranks[rank].exit_code, 0)
        << "rank " << rank << ", signal " << ranks[rank].signal << "\n"
        << ranks[rank].out << ranks[rank].err;
  }
}

int CountIn(const std::string& text, const std::string& what) {
  int count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Trains until a generation other than the first; `at_step` may throw, or end this process.
int TrainOn(Context& ctx, const std::function<void(int step)>& at_step) {
  auto net = std::make_shared<torch::nn::LinearImpl>(64, 64);
  DistributedDataParallel<torch::nn::LinearImpl> model(ctx, net);
  for (int step = 0; ctx.generation() == 0 || step < 3; ++step) {
    at_step(step);
    model.zero_grad();
    model(torch::ones({2, 64})).sum().backward();
    ctx.report_step(step);
  }
  std::cout << "rank " << ctx.rank() << " of " << ctx.world_size() << " in generation "
            << ctx.generation() << ", sum " << all_reduce_sum(ctx, std::int64_t{1}) << std::endl;
  return 0;
}

TEST(RunInPlaceTest, SurvivorsOfAKilledRankGoOnInTheNextGeneration) {
  for (const std::string victim : {"0", "1", "2"}) {
    if (InRank()) {
      const pid_t self = getpid();
      const bool dies = std::string(std::getenv("RANK")) == std::getenv("DDP_TEST_VICTIM");
      const std::string rank = std::getenv("RANK");
      End(run_in_place([&](Context& ctx) {
        // The process keeps its pid and its environment.
        if (getpid() != self || std::getenv("RANK") != rank) return 3;
        return TrainOn(ctx, [&](int step) {
          if (dies && step == 5) raise(SIGKILL);
        });
      }));
    }
    const ddprun::TempDir folder;
    RegroupingAgent agent({.world_size = 3, .output = folder / "later"});
    Environment environment = agent.environment();
    environment["DDP_TEST_VICTIM"] = victim;
    std::vector<RankResult> ranks = RunRanks({3, {}, environment});
    const auto died = ranks.begin() + std::stoi(victim);
    EXPECT_EQ(died->signal, SIGKILL);
    ranks.erase(died);
    ExpectAllEndedWell(ranks);
    const std::string later = test::ReadFile(folder / "later");
    EXPECT_THAT(later, HasSubstr("rank 0 of 2 in generation 1, sum 2\n"));
    EXPECT_THAT(later, HasSubstr("rank 1 of 2 in generation 1, sum 2\n"));
    for (const RankResult& rank : ranks) {
      EXPECT_EQ(rank.err, "");
      EXPECT_THAT(rank.out, Not(HasSubstr("in generation"))) << "stdout is another file by then";
    }
    EXPECT_EQ(std::count(agent.heard().begin(), agent.heard().end(), "STANDBY=waiting"), 2);
  }
}

TEST(RunInPlaceTest, NobodyWaitsForARankThatIsElsewhere) {
  if (InRank()) {
    End(run_in_place([&](Context& ctx) {
      // Rank 2 is in no collective when LEAVE comes, and notices in its next one.
      return TrainOn(ctx, [&](int step) {
        if (ctx.generation() == 0 && step == 5 && ctx.rank() == 1) raise(SIGKILL);
        if (ctx.generation() == 0 && step == 5 && ctx.rank() == 2) usleep(300'000);
      });
    }));
  }
  const ddprun::TempDir folder;
  RegroupingAgent agent({.world_size = 3, .output = folder / "later"});
  std::vector<RankResult> ranks = RunRanks({3, {}, agent.environment()});
  ranks.erase(ranks.begin() + 1);
  ExpectAllEndedWell(ranks);
  EXPECT_EQ(CountIn(test::ReadFile(folder / "later"), "of 2 in generation 1, sum 2\n"), 2);
}

struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    register_module("first", first);
    register_module("second", second);
  }
  torch::Tensor forward(const torch::Tensor& input) { return second(first(input)); }

  torch::nn::Linear first{8, 8};
  torch::nn::Linear second{8, 8};
};

// Rank 1 dies while rank 0 computes the gradients. The gradients of the second layer come first,
// and rank 0 stays there until LEAVE has come. Its own gradients of the first layer need no other
// rank, and are not computed.
TEST(RunInPlaceTest, ASurvivorThatComputesLeavesAtItsNextGradient) {
  if (InRank()) {
    const std::string computes = std::string(std::getenv("DDP_TEST_FOLDER")) + "/computes";
    End(run_in_place([&](Context& ctx) {
      if (ctx.generation() > 0) return 0;
      auto net = std::make_shared<TwoLayers>();
      DistributedDataParallel<TwoLayers> model(ctx, net);
      if (ctx.rank() == 1) {
        while (access(computes.c_str(), F_OK) != 0) usleep(1000);  // until rank 0 computes
        raise(SIGKILL);
      }
      net->second->weight.register_hook([&](const torch::Tensor&) {
        std::ofstream{computes};
        while (!internal::ControlClient::Process().leaves()) usleep(1000);
      });
      net->first->weight.register_hook([](const torch::Tensor&) { End(4); });
      ctx.report_step(0);
      model(torch::ones({2, 8})).sum().backward();
      return 5;
    }));
  }
  const ddprun::TempDir folder;
  RegroupingAgent agent({.world_size = 2, .output = folder / "later"});
  Environment environment = agent.environment();
  environment["DDP_TEST_FOLDER"] = folder.path();
  std::vector<RankResult> ranks = RunRanks({2, {}, environment});
  ranks.pop_back();
  ExpectAllEndedWell(ranks);
}

// Generation 1 waits for a rank that never comes, until it is over. Seen red with ranks that said
// STAYS=1 only after they had joined.
TEST(RunInPlaceTest, ARankThatJoinsCanLeave) {
  for (const bool absent_first : {false, true}) {
    if (InRank()) {
      End(run_in_place([&](Context& ctx) {
        return TrainOn(ctx, [&](int step) {
          if (ctx.generation() == 0 && step == 5 && ctx.rank() == 2) raise(SIGKILL);
        });
      }));
    }
    const ddprun::TempDir folder;
    RegroupingAgent agent({.world_size = 3,
                           .generations = 3,
                           .incomplete = 1,
                           .absent_first = absent_first,
                           .output = folder / "later"});
    std::vector<RankResult> ranks = RunRanks({3, {}, agent.environment()});
    ranks.erase(ranks.begin() + 2);
    ExpectAllEndedWell(ranks);
    EXPECT_EQ(CountIn(test::ReadFile(folder / "later"), "of 2 in generation 2, sum 2\n"), 2);
    EXPECT_EQ(CountIn(test::ReadFile(folder / "later"), "in generation 1"), 0);
  }
}

TEST(RunInPlaceTest, AnErrorOfTheProgramEndsIt) {
  if (InRank()) {
    End(run_in_place([&](Context& ctx) {
      return TrainOn(ctx, [&](int step) {
        if (ctx.rank() == 1 && step == 5) throw std::runtime_error("the data is wrong");
      });
    }));
  }
  const ddprun::TempDir folder;
  RegroupingAgent agent({.world_size = 2, .output = folder / "later"});
  const std::vector<RankResult> ranks = RunRanks({2, {}, agent.environment()});
  EXPECT_EQ(ranks[0].exit_code, 0);  // continues alone
  EXPECT_EQ(ranks[1].exit_code, 1);
  EXPECT_THAT(ranks[1].err, HasSubstr("[rank 1] error: the data is wrong"));
  EXPECT_THAT(agent.heard(), Contains("ERROR=user the data is wrong"));
}

TEST(RunInPlaceTest, AVictimThatNobodyAsksToLeaveEnds) {
  if (InRank()) {
    End(run_in_place([&](Context& ctx) {
      return TrainOn(ctx, [&](int step) {
        if (ctx.rank() == 1 && step == 5) raise(SIGKILL);
      });
    }));
  }
  // Only one generation: the agent sends nothing.
  RegroupingAgent agent({.world_size = 2, .generations = 1, .output = ""});
  const std::vector<RankResult> ranks = RunRanks({2, {}, agent.environment()});
  EXPECT_EQ(ranks[0].exit_code, 1);
  EXPECT_THAT(ranks[0].err, HasSubstr("Rank 1 has ended without a word"));
  EXPECT_THAT(agent.heard(), Contains(HasSubstr("ERROR=collective ")));
}

TEST(RunInPlaceTest, WithoutAnAgentItIsRun) {
  if (InRank()) {
    End(run_in_place([&](Context& ctx) {
      return all_reduce_sum(ctx, std::int64_t{1}) == 2 && ctx.rank() < 2 ? 7 : 1;
    }));
  }
  for (const RankResult& rank : RunRanks({2, {}, {}})) EXPECT_EQ(rank.exit_code, 7) << rank.err;
}

std::ptrdiff_t EntriesOf(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

long MappedKib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::atol(line.c_str() + 6);
  }
  return -1;
}

std::ptrdiff_t OpenSockets() {
  std::ptrdiff_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;  // one descriptor is the iterator's own
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (target.native().starts_with("socket:")) ++count;
  }
  return count;
}

struct Held {
  std::ptrdiff_t descriptors = 0;
  std::ptrdiff_t sockets = 0;
  std::ptrdiff_t threads = 0;
  long kib = 0;

  static Held Now() {
    return {EntriesOf("/proc/self/fd"), OpenSockets(), EntriesOf("/proc/self/task"), MappedKib()};
  }
};

constexpr int kSettled = 10;
constexpr long kSlackKib = 4096 + ddprun::kSanitizerKib;

// DDP_TEST_REGROUPINGS=1000 repeats it more often. This test hangs if a waiter stays asleep in one
// of 50 regroupings, as happens when connections are only shut down.
TEST(RunInPlaceTest, ManyGenerationsLeaveNothingBehind) {
  const char* const wanted = std::getenv("DDP_TEST_REGROUPINGS");
  const int generations = wanted != nullptr ? std::atoi(wanted) : 100;
  if (InRank()) {
    Held early;
    End(run_in_place([&](Context& ctx) {
      const Held now = Held::Now();
      if (ctx.generation() == kSettled) early = now;
      auto net = std::make_shared<torch::nn::LinearImpl>(4, 4);
      DistributedDataParallel<torch::nn::LinearImpl> model(ctx, net);
      for (int step = 0; ctx.generation() + 1 < generations || step < 2; ++step) {
        model.zero_grad();
        model(torch::ones({2, 4})).sum().backward();
        ctx.report_step(step);
      }
      if (ctx.generation() + 1 < generations) return 1;
      std::cout << "descriptors " << early.descriptors << " then " << now.descriptors
                << ", sockets " << early.sockets << " then " << now.sockets << ", threads "
                << early.threads << " then " << now.threads << ", KiB " << early.kib << " then "
                << now.kib << std::endl;
      const bool grown = now.descriptors > early.descriptors || now.threads > early.threads ||
                         now.kib > early.kib + kSlackKib;
      return grown ? 2 : 0;
    }));
  }
  const ddprun::TempDir folder;
  RegroupingAgent agent(
      {.world_size = 2, .generations = generations, .ends_them = true, .output = folder / "later"});
  const std::chrono::seconds limit(60 + generations);
  ExpectAllEndedWell(RunRanks({2, {}, agent.environment(), limit}));
  std::cout << test::ReadFile(folder / "later");
}

}  // namespace run_in_place_test
}  // namespace ddp
