// Tests the death of a rank in the middle of a restore, in a job without a launcher.
#include <ddp/checkpointer.h>
#include <ddp/run.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace restore_failure_test {

using test::RankResult;
using ::testing::HasSubstr;

constexpr int kRanksPerNode = 2;
// 32 chunks: four times as many as a ring has places.
constexpr std::int64_t kNumbers = std::int64_t{4} << 20;

struct Net : torch::nn::Module {
  Net() : weight(register_parameter("weight", torch::ones({kNumbers}))) {}
  torch::Tensor weight;
};

// From here on a write ends the process.
void MakeReadOnly(torch::Tensor* tensor) {
  void* const memory =
      mmap(nullptr, tensor->nbytes(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  tensor->set_data(torch::from_blob(memory, tensor->sizes()));
}

// Two nodes with two ranks each. Only rank 0's node has the state: rank 2 gets it over the network
// and passes it to rank 3 through shared memory.
int Restore() {
  const int rank = std::stoi(std::getenv("RANK"));
  setenv("LOCAL_RANK", std::to_string(rank % kRanksPerNode).c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", std::to_string(kRanksPerNode).c_str(), 1);
  return run([&] {
    const Context ctx = init();  // its collectives wait for half an hour
    Net net;
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    const CheckpointParts parts(net, optimizer);
    Checkpointer checkpointer(ctx, std::getenv("DDP_TEST_FOLDER") + std::to_string(rank));
    checkpointer.save({}, parts);
    checkpointer.flush();
    if (rank == std::stoi(std::getenv("DDP_TEST_VICTIM"))) MakeReadOnly(&net.weight);
    checkpointer.load_latest(parts);
    return 0;
  });
}

class RestoreFailureTest : public ::testing::TestWithParam<int> {};

// Seen red without ThrowIfAnotherFailed(): if rank 2 died, rank 3 did not end; if rank 3 died,
// rank 2 did not end.
TEST_P(RestoreFailureTest, TheDeathOfARankEndsAllOthers) {
  if (test::InRank()) exit(Restore());
  const ddprun::TempDir folder;
  test::Job job;
  job.world_size = 4;
  job.environment = {{"DDP_TEST_FOLDER", folder / "rank"},
                     {"DDP_TEST_VICTIM", std::to_string(GetParam())}};
  const std::vector<RankResult> ranks = RunRanks(job);
  std::string said;
  for (int rank = 0; rank < job.world_size; ++rank) {
    const RankResult& result = ranks[static_cast<std::size_t>(rank)];
    said += result.err;
    if (rank == GetParam()) {
      EXPECT_EQ(result.signal, SIGSEGV) << result.err;
    } else {
      EXPECT_EQ(result.exit_code, 1) << "rank " << rank << ", signal " << result.signal << "\n"
                                     << result.err;
    }
  }
  EXPECT_THAT(said, HasSubstr("Rank " + std::to_string(GetParam()) + " has ended without a word"));
}

// The ranks that die: the source's neighbour, the leader of the other node, and its follower.
INSTANTIATE_TEST_SUITE_P(Victims, RestoreFailureTest, ::testing::Values(1, 2, 3));

}  // namespace restore_failure_test
}  // namespace ddp
