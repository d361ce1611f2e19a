// What becomes of a job whose collectives do not fail when a rank is lost, as NCCL's do not: they
// are aborted, and nothing that could have come out of them is used. Here the group is Gloo's; its
// "abort" only counts.
#include "worker/src/lost_group.h"

#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "tests/unit/worker/multi_rank.h"
#include "worker/src/compat.h"
#include "worker/src/failure.h"
#include "worker/src/nccl_group.h"
#include "worker/src/peers.h"
#include "worker/src/process_group.h"
#include "worker/src/state_image.h"

namespace ddp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RankResult;
using testing::RunRanks;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// Seen red without the checks in Collective() and before_forward(): the survivor trains on.
TEST(LostGroupTest, AfterTheAbortNothingGoesOnFromWhatTheGpuHas) {
  if (testing::InRank()) {
    const Context ctx = init();
    auto net = std::make_shared<torch::nn::LinearImpl>(4, 4);
    DistributedDataParallel<torch::nn::LinearImpl> model(ctx, net);
    barrier(ctx);
    if (ctx.rank() == 1) raise(SIGKILL);
    EXPECT_FALSE(internal::GroupIsLost());
    std::promise<bool> aborted;
    internal::AbortWhenLost(internal::ProcessPeers().get(),
                            [&] { aborted.set_value(internal::GroupIsLost()); });
    EXPECT_TRUE(aborted.get_future().get()) << "known before the first kernel ends";

    const auto names_rank1 = AllOf(HasSubstr("the collectives of the GPU were aborted"),
                                   HasSubstr("Rank 1 has ended without a word"));
    EXPECT_THAT([&] { model(torch::ones({2, 4})); }, ThrowsMessage<CollectiveError>(names_rank1));
    EXPECT_THAT([&] { internal::Collective("reducing", 0, 2, [] {}); },
                ThrowsMessage<CollectiveError>(
                    AllOf(StartsWith("reducing failed on rank 0 of 2: "), names_rank1)));
    internal::NoteNewGroup();
    EXPECT_NO_THROW(internal::ThrowIfGroupIsLost());
    exit(HasFailure() ? 1 : 0);  // without the farewell that needs rank 1
  }
  testing::Job job;
  job.world_size = 2;
  const std::vector<RankResult> ranks = RunRanks(job);
  EXPECT_EQ(ranks[0].exit_code, 0) << ranks[0].out << ranks[0].err;
  EXPECT_EQ(ranks[1].signal, SIGKILL) << ranks[1].out << ranks[1].err;
}

TEST(LostGroupTest, WithoutPeersOrAnythingToAbortNobodyIsCalled) {
  internal::NoteNewGroup();
  internal::AbortWhenLost(nullptr, [] { FAIL(); });
  internal::Peers hub(1, [] { return internal::Activity{}; });
  internal::AbortWhenLost(&hub, nullptr);
  EXPECT_EQ(hub.Ask(), "Rank 0  (for 0.0 s).") << "a conclusion, and no call";
  EXPECT_FALSE(internal::GroupIsLost());
}

TEST(NcclSettingsTest, AreSetWhereTheEnvironmentDoesNotSay) {
  for (const internal::NcclSetting& setting : internal::kNcclSettings) unsetenv(setting.name);
  setenv("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "60", 1);
  internal::SetNcclSettings();
  for (const internal::NcclSetting& setting : internal::kNcclSettings) {
    const bool is_own = std::string(setting.name) == "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC";
    EXPECT_STREQ(getenv(setting.name), is_own ? "60" : setting.value) << setting.name;
    unsetenv(setting.name);
  }
}

template <typename Group>
void ExpectSameBackend(Group& one, Group& other) {
  if constexpr (compat::kHasBackends<Group>) {
    EXPECT_EQ(one.getBackend(c10::kCPU).get(), other.getBackend(c10::kCPU).get());
  }
}

// How a group of NCCL gets Gloo for tensors on the CPU, tried with Gloo twice. libtorch 1.13 has
// groups of one kind only.
TEST(GroupTest, ADeviceCanBeCarriedByAnotherBackend) {
  const Context ctx = init();
  EXPECT_TRUE(ctx.carries_cpu_tensors());
  using c10d::ProcessGroup;
  EXPECT_EQ(internal::GroupsCarryBoth(), compat::kHasBackends<ProcessGroup>);
  internal::LaunchEnvironment env;
  env.world_size = 1;
  const auto group = internal::MakeGroup(
      env, Options(), "gloo", c10::Device(c10::kCPU), internal::MakeGlooDevices(env),
      c10::make_intrusive<c10d::PrefixStore>("other", ctx.store()));
  EXPECT_TRUE(group.carries_cpu_tensors);
  EXPECT_EQ(group.abort, nullptr) << "Gloo's collectives fail by themselves";
  compat::CarryAs(*ctx.process_group(), c10::kCPU, *group.group);
  EXPECT_EQ(all_reduce_sum(ctx, std::int64_t{3}), 3);
  ExpectSameBackend(*ctx.process_group(), *group.group);
}

// The copy of the CPU's tensors is there at once; by way of other memory, when it is awaited.
TEST(StateImageTest, CopiesByWayOfOtherMemoryWhenItIsAwaited) {
  const torch::Tensor tensor = torch::arange(6, torch::kFloat32).view({2, 3}).t();
  const internal::StateImage image({{"x", tensor, false}});
  std::vector<float> memory(6, -1);
  std::vector<float> between(6, -1);
  const std::vector<float> expected = {0, 3, 1, 4, 2, 5};
  const auto at = [](std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); };

  internal::CheckpointImage direct = image.CopyTo(at(memory));
  EXPECT_EQ(direct.await, nullptr);
  EXPECT_EQ(memory, expected);
  EXPECT_EQ(direct.tensors.at(0).data, memory.data());

  memory.assign(6, -1);
  const internal::CheckpointImage by_way = image.CopyTo(at(memory), at(between));
  EXPECT_EQ(by_way.tensors.at(0).data, memory.data());
  tensor.zero_();  // training goes on
  by_way.await();
  EXPECT_EQ(memory, expected);
}

}  // namespace
}  // namespace ddp
