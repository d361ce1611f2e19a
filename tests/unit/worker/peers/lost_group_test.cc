// Tests a job whose collectives do not fail when a rank is lost, like NCCL's. The library aborts
// them, and does not use their results. Here the group is Gloo's, and its abort only counts the
// calls.
#include "worker/src/peers/lost_group.h"

#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "worker/contract/environment.h"
#include "worker/src/compat/compat.h"
#include "worker/src/group/failure.h"
#include "worker/src/group/nccl_group.h"
#include "worker/src/group/process_group.h"
#include "worker/src/group/recorded_group.h"
#include "worker/src/peers/rank_failure_detector.h"
#include "worker/src/state/state_image.h"

namespace ddp {
namespace lost_group_test {

using test::RankResult;
using test::RunRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// Runs `body` on a rank whose only peer has ended before.
int RunSurvivor(const std::function<int(const Context&)>& body) {
  return run([&] {
    const Context ctx = init();
    barrier(ctx);
    if (ctx.rank() == 1) raise(SIGKILL);
    return body(ctx);
  });
}

std::vector<RankResult> RunBoth() {
  test::Job job;
  job.world_size = 2;
  std::vector<RankResult> ranks = RunRanks(job);
  EXPECT_EQ(ranks[1].signal, SIGKILL) << ranks[1].out << ranks[1].err;
  return ranks;
}

constexpr std::chrono::milliseconds kLong = std::chrono::minutes(10);

// A plan that sets `aborted` when its abort is called, and whose end must not be called.
struct Plan : internal::LossPlan {
  explicit Plan(std::chrono::milliseconds own_grace) {
    abort = [this] { aborted.set_value(internal::GroupIsLost()); };
    end = [] { std::_Exit(99); };
    grace = own_grace;
    patience = kLong;
  }
  std::promise<bool> aborted;
};

// Seen red without the checks in Collective() and before_forward(): the survivor trains on.
TEST(LostGroupTest, AfterTheAbortNothingGoesOnFromWhatTheGpuHas) {
  if (test::InRank()) {
    const int code = RunSurvivor([](const Context& ctx) {
      auto net = std::make_shared<torch::nn::LinearImpl>(4, 4);
      Plan plan{std::chrono::milliseconds(0)};
      internal::ActWhenLost(internal::ProcessFailureDetector().get(), plan);
      EXPECT_TRUE(plan.aborted.get_future().get()) << "known before the first kernel ends";
      const auto names_rank1 = AllOf(HasSubstr("the collectives of the GPU were aborted"),
                                     HasSubstr("Rank 1 has ended without a word"));
      bool begun = false;
      EXPECT_THAT([&] { internal::Collective("reducing", 0, 2, [&] { begun = true; }); },
                  ThrowsMessage<CollectiveError>(
                      AllOf(StartsWith("reducing failed on rank 0 of 2: "), names_rank1)));
      EXPECT_FALSE(begun) << "it would wait for ever";
      EXPECT_THAT([&] { internal::ThrowIfGroupIsLost(); },
                  ThrowsMessage<CollectiveError>(names_rank1));
      const ddprun::TempDir folder;
      EXPECT_THROW(save_state_dict(state_dict(*net), folder / "x.pt"), CollectiveError);
      EXPECT_THROW(save_state_dict(state_dict(*net), folder / "x.safetensors"), CollectiveError);
      EXPECT_TRUE(test::FilesIn(folder.path()).empty());
      static_cast<void>(ctx);
      return HasFailure() ? 1 : 0;
    });
    exit(code);  // not reached: run() ends the process, since the group is lost
  }
  const std::vector<RankResult> ranks = RunBoth();
  EXPECT_EQ(ranks[0].exit_code, 1) << ranks[0].out << ranks[0].err;
  EXPECT_EQ(ranks[0].out.find("Failure"), std::string::npos) << ranks[0].out;
  EXPECT_THAT(ranks[0].err, HasSubstr("[rank 0] error: a rank was lost, and the collectives of the "
                                      "GPU were aborted. Rank 1 has ended without a word"));
}

// The process first gets some time to throw by itself, before the abort.
TEST(LostGroupTest, WhoThrowsInTimeIsNotAborted) {
  if (test::InRank()) {
    exit(RunSurvivor([](const Context& ctx) {
      auto plan = std::make_shared<Plan>(kLong);
      plan->abort = [] { std::_Exit(98); };
      internal::ActWhenLost(internal::ProcessFailureDetector().get(), *plan);
      barrier(ctx);  // over Gloo, which notices the loss
      return 97;
    }));
  }
  const std::vector<RankResult> ranks = RunBoth();
  EXPECT_EQ(ranks[0].exit_code, 1) << ranks[0].out << ranks[0].err;
  EXPECT_THAT(ranks[0].err, HasSubstr("Rank 1 has ended without a word"));
}

// An error that was caught and explained before the loss is no report of the loss.
TEST(LostGroupTest, AnErrorThatWasExplainedBeforeDoesNotUndoThePlan) {
  if (test::InRank()) {
    exit(RunSurvivor([](const Context& ctx) {
      explain(std::runtime_error("a file is missing"));
      try {
        internal::Collective("trying", 0, 2, [] { throw std::runtime_error("no such dtype"); });
      } catch (const CollectiveError&) {
      }
      Plan plan{std::chrono::milliseconds(0)};
      internal::ActWhenLost(internal::ProcessFailureDetector().get(), plan);
      plan.aborted.get_future().get();
      static_cast<void>(ctx);
      return 0;
    }));
  }
  const std::vector<RankResult> ranks = RunBoth();
  EXPECT_THAT(ranks[0].err, HasSubstr("the collectives of the GPU were aborted"));
}

// The thread stays in the driver, and the abort throws or never returns.
TEST(LostGroupTest, WhoDoesNotComeBackIsEndedWithTheCause) {
  if (test::InRank()) {
    exit(RunSurvivor([](const Context&) {
      internal::LossPlan plan;
      plan.abort = [] { throw std::runtime_error("ncclCommAbort failed"); };
      if (std::getenv("DDP_TEST_ABORT_HANGS") != nullptr) {
        plan.abort = [] { std::promise<void>().get_future().wait(); };
      }
      plan.end = internal::EndBecauseOfLoss;
      plan.grace = plan.patience = std::chrono::milliseconds(50);
      internal::ActWhenLost(internal::ProcessFailureDetector().get(), plan);
      std::promise<void>().get_future().wait();
      return 97;
    }));
  }
  for (const bool hangs : {false, true}) {
    test::Job job;
    job.world_size = 2;
    if (hangs) job.environment["DDP_TEST_ABORT_HANGS"] = "1";
    const std::vector<RankResult> ranks = RunRanks(job);
    EXPECT_EQ(ranks[0].exit_code, 1) << ranks[0].out << ranks[0].err;
    EXPECT_THAT(ranks[0].err,
                HasSubstr("[rank 0] error: a rank was lost, and the collectives of the GPU were "
                          "aborted, and yet this rank does not come back. Rank 1 has ended"));
  }
}

TEST(LostGroupTest, ARankThatLeavesIsNotLost) {
  if (test::StartedRanks(3)) return;
  internal::LossPlan plan;
  plan.abort = plan.end = [] { std::_Exit(98); };
  plan.grace = std::chrono::milliseconds(0);
  const Context ctx = init();
  internal::ActWhenLost(internal::ProcessFailureDetector().get(), plan);
  barrier(ctx);
}  // each process ends here

TEST(LostGroupTest, WithoutPeersOrAnythingToAbortThereIsNoPlan) {
  internal::NoteNewGroup();
  internal::LossPlan plan;
  plan.end = [] { std::_Exit(98); };
  plan.grace = plan.patience = std::chrono::milliseconds(0);
  internal::RankFailureDetector hub(2, [] { return internal::Activity{}; });
  internal::ActWhenLost(&hub, plan);
  plan.abort = plan.end;
  internal::ActWhenLost(nullptr, plan);
  hub.ReportError("something");
  EXPECT_FALSE(internal::GroupIsLost());
}

// Only libtorch's watchdog reports that a collective has failed.
TEST(LostGroupTest, AFailureThatTheGroupReportsIsALoss) {
  internal::NoteNewGroup();
  bool failed = false;
  internal::WatchForFailure([&failed] { return failed; });
  EXPECT_FALSE(internal::GroupIsLost());
  failed = true;
  EXPECT_THROW(internal::ThrowIfGroupIsLost(), CollectiveError);
  failed = false;
  EXPECT_TRUE(internal::GroupIsLost()) << "what is lost stays lost";
}

TEST(LostGroupTest, AGroupThatIsNeededNoMoreIsNotAsked) {
  internal::NoteNewGroup();
  internal::WatchForFailure([]() -> bool {
    ADD_FAILURE() << "asked";
    return true;
  });
  internal::NoteEnd();
  EXPECT_FALSE(internal::GroupIsLost());
}

TEST(LostGroupTest, AGroupThatIsLeftIsLost) {
  internal::NoteNewGroup();
  internal::NoteLeft();
  EXPECT_THROW(internal::ThrowIfGroupIsLost(), CollectiveError);
}

class NcclSettingsTest : public ::testing::Test {
 protected:
  NcclSettingsTest() { Unset(); }
  ~NcclSettingsTest() override { Unset(); }

  static void Unset() {
    for (const internal::NcclSetting& setting : internal::kNcclSettings) {
      unsetenv(setting.name);
      if (setting.older_name != nullptr) unsetenv(setting.older_name);
    }
    unsetenv("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC");
    unsetenv(internal::kNcclWatchdogSeconds);
    unsetenv(ddprun::env::kHangLimit);
  }
  static std::string Get(const char* name) {
    const char* const value = getenv(name);
    return value == nullptr ? "" : value;
  }
  static bool KnowsNewNames() { return compat::kHasBackends<c10d::ProcessGroup>; }
};

TEST_F(NcclSettingsTest, AreSetWhereTheEnvironmentDoesNotSay) {
  setenv("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "60", 1);
  internal::SetNcclSettings(/*can_be_left=*/false);
  EXPECT_EQ(Get("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"), "60");
  EXPECT_EQ(Get("TORCH_NCCL_ASYNC_ERROR_HANDLING"), KnowsNewNames() ? "3" : "");
  EXPECT_EQ(Get("NCCL_ASYNC_ERROR_HANDLING"), KnowsNewNames() ? "" : "1");
  EXPECT_EQ(Get("TORCH_NCCL_DUMP_ON_TIMEOUT"), KnowsNewNames() ? "0" : "");
  EXPECT_EQ(Get("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"), KnowsNewNames() ? "0" : "");
}

TEST_F(NcclSettingsTest, TheWatchdogWaitsLongerThanTheJudgeOfHangs) {
  setenv(ddprun::env::kHangLimit, "600001", 1);
  internal::SetNcclSettings(/*can_be_left=*/false);
  EXPECT_EQ(Get(internal::kNcclWatchdogSeconds), KnowsNewNames() ? "661" : "");
}

TEST_F(NcclSettingsTest, WhoAsksForADumpGetsTheTimeForIt) {
  setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", 1);
  internal::SetNcclSettings(/*can_be_left=*/false);
  EXPECT_EQ(Get("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"), "");
}

// An NCCL error must not end a process that can continue without the group.
TEST_F(NcclSettingsTest, AGroupThatCanBeLeftDoesNotEndTheProcess) {
  for (const std::string value : {"1", "2", "0", "3"}) {
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", value.c_str(), 1);
    internal::SetNcclSettings(/*can_be_left=*/true);
    const std::string expected = value == "0" || !KnowsNewNames() ? value : "2";
    EXPECT_EQ(Get("TORCH_NCCL_ASYNC_ERROR_HANDLING"), expected);
  }
}

TEST_F(NcclSettingsTest, AnOlderNameIsRemovedWhereTheNewOneIsSet) {
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 1);
  setenv("NCCL_ASYNC_ERROR_HANDLING", "1", 1);
  internal::SetNcclSettings(/*can_be_left=*/false);
  EXPECT_EQ(Get("NCCL_ASYNC_ERROR_HANDLING"), KnowsNewNames() ? "" : "1");
}

TEST_F(NcclSettingsTest, OlderNamesCount) {
  setenv("NCCL_ASYNC_ERROR_HANDLING", "0", 1);
  setenv("NCCL_BLOCKING_WAIT", "1", 1);
  internal::SetNcclSettings(/*can_be_left=*/false);
  EXPECT_EQ(Get("NCCL_ASYNC_ERROR_HANDLING"), "0");
  EXPECT_EQ(Get("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "");
  EXPECT_EQ(Get("TORCH_NCCL_BLOCKING_WAIT"), "");
}

// 1 is set by torchrun and ddprun; 0 and 2 are a user's choice.
TEST_F(NcclSettingsTest, AnAbortBeforeTheEndIsNotWanted) {
  for (const std::string value : {"1", "2", "0", "3"}) {
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", value.c_str(), 1);
    internal::SetNcclSettings(/*can_be_left=*/false);
    const std::string expected = value == "1" && KnowsNewNames() ? "3" : value;
    EXPECT_EQ(Get("TORCH_NCCL_ASYNC_ERROR_HANDLING"), expected);
  }
}

// Does what MakeGroup() does for NCCL. Here Gloo is in the place of NCCL, for CUDA tensors, which
// the test does not use.
template <typename Group>
void ExpectThatItCarriesTheCpuToo(const Context& ctx, Group& gloo) {
  if constexpr (compat::kHasBackends<Group>) {
    const auto backend = gloo.getBackend(c10::kCPU);
    const auto group = compat::GroupOver<Group, internal::RecordedGroup>(
        backend, ctx.store(), {c10::kCUDA}, /*is_nccl=*/true);
    EXPECT_ANY_THROW(group->getBackend(c10::kCPU));
    compat::CarryAs(*group, c10::kCPU, gloo);
    EXPECT_EQ(group->getBackend(c10::kCPU).get(), backend.get());
    std::vector<torch::Tensor> tensors = {torch::full({1}, 3.0)};
    group->allreduce(tensors)->wait();
    EXPECT_EQ(tensors[0].template item<double>(), 3.0);
  }
}

// How an NCCL group gets Gloo for CPU tensors. A group of libtorch 1.13 has one backend only.
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
  ExpectThatItCarriesTheCpuToo(ctx, *group.group);
}

// A direct copy of CPU tensors is complete at once. A copy through other memory must be awaited.
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
  tensor.zero_();  // training continues
  EXPECT_TRUE(by_way.await());
  EXPECT_EQ(memory, expected);
}

}  // namespace lost_group_test
}  // namespace ddp
