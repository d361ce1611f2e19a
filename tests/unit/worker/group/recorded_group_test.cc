#include "worker/src/group/recorded_group.h"

#include <ddp/ddp.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "tests/unit/worker/support/multi_rank.h"
#include "worker/src/compat/compat.h"

namespace ddp::internal {
namespace recorded_group_test {

using ddp::test::StartedRanks;
using ddprun::ProgressGroup;

ProgressGroup Now() { return Progress::Process().Read().groups[0]; }

std::vector<std::uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }

TEST(RecordedGroupTest, NumbersEveryCollectiveOfTheLibrary) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  std::uint64_t before = Now().finished;
  const auto check = [&](const char* what, ProgressOperation operation,
                         const std::function<void()>& collective) {
    collective();
    const ProgressGroup now = Now();
    EXPECT_GT(now.finished, before) << what;
    EXPECT_EQ(now.unfinished(), 0u) << what;
    EXPECT_EQ(now.entered->operation, operation) << what;
    EXPECT_EQ(now.completed->number, now.entered->number) << what;
    before = now.finished;
  };
  torch::Tensor tensor = torch::ones({10});
  check("barrier", ProgressOperation::kAllReduce, [&] { barrier(ctx); });
  check("sum", ProgressOperation::kAllReduce, [&] { all_reduce_sum(ctx, tensor); });
  EXPECT_EQ(Now().entered->bytes, 40u);
  check("reduce", ProgressOperation::kReduce, [&] { reduce_sum(ctx, tensor, 0); });
  check("broadcast", ProgressOperation::kBroadcast, [&] { broadcast(ctx, tensor); });
  check("gather", ProgressOperation::kGather, [&] { gather(ctx, tensor, 1); });
  check("all_gather", ProgressOperation::kAllGather, [&] { all_gather(ctx, tensor); });
  check("the program's own", ProgressOperation::kBarrier,
        [&] { ctx.process_group()->barrier()->wait(); });
}

TEST(RecordedGroupTest, AllRanksCountTheReducersCollectivesAlike) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  const auto net = std::make_shared<torch::nn::LinearImpl>(4, 2);
  DataParallelOptions options;
  options.find_unused_parameters = true;
  DistributedDataParallel<torch::nn::LinearImpl> model(ctx, net, options);
  model.register_comm_hook(fp16_compress(ctx));
  const std::uint64_t before = Now().entered->number;
  const std::uint64_t moves = Progress::Process().Read().moves;
  for (int step = 1; step <= 3; ++step) {
    model.zero_grad();
    model.forward(torch::ones({2, 4})).sum().backward();
    ctx.report_step(step);
  }
  // Each step has at least two collectives: the gradients, and the search for unused parameters.
  EXPECT_GE(Now().entered->number, before + 3 * 2);
  EXPECT_EQ(Now().unfinished(), 0u);
  const ddprun::ProgressSnapshot read = Progress::Process().Read();
  EXPECT_GT(read.moves, moves);
  EXPECT_EQ(read.step, 3);
  EXPECT_EQ(read.phase, ProgressPhase::kStep);
  const std::string number = std::to_string(read.groups[0].entered->number);
  EXPECT_EQ(broadcast(ctx, number), number);
}

// As if rank 1 hung before the collective.
TEST(RecordedGroupTest, ShowsACollectiveThatOnlyOneRankEntered) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const std::uint64_t before = Now().entered->number;
  std::vector<torch::Tensor> tensors = {torch::ones({3}, torch::kFloat64)};
  if (ctx.rank() == 0) {
    const auto work = ctx.process_group()->allreduce(tensors);
    const ProgressGroup waiting = Now();
    EXPECT_EQ(waiting.entered->number, before + 1);
    EXPECT_EQ(waiting.entered->bytes, 24u);
    EXPECT_EQ(waiting.unfinished(), 1u);
    EXPECT_EQ(waiting.completed->number, before);
    ctx.store()->set("looked", Bytes("1"));
    work->wait();
  } else {
    ctx.store()->wait({"looked"});
    EXPECT_EQ(Now().entered->number, before);
    ctx.process_group()->allreduce(tensors)->wait();
  }
  EXPECT_EQ(Now().unfinished(), 0u);
  EXPECT_EQ(Now().completed->number, before + 1);
}

TEST(RecordedGroupTest, WhatIsRefusedIsNotWaitedFor) {
  if (StartedRanks(1)) return;
  const Context ctx = init();
  std::vector<torch::Tensor> none;
  EXPECT_ANY_THROW(ctx.process_group()->allreduce(none));
  EXPECT_EQ(Now().unfinished(), 0u);
}

// Works that do not report their completion, like NCCL's.
class SilentWork final : public CollectiveRecord::WorkPtr::element_type {
 public:
  bool isCompleted() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++asked_;
    changed_.notify_all();
    return completed_;
  }
  std::exception_ptr exception() const override {
    return succeeds_ ? nullptr : std::make_exception_ptr(std::runtime_error("it failed"));
  }

  void Complete(bool succeeds = true) {
    const std::lock_guard<std::mutex> lock(mutex_);
    succeeds_ = succeeds;
    completed_ = true;
    asked_ = 0;
  }
  void WaitUntilAsked() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return asked_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int asked_ = 0;
  bool completed_ = false;
  std::atomic<bool> succeeds_{true};
};

class SilentWorkTest : public testing::Test {
 protected:
  SilentWorkTest() { Progress::Process().BeginGeneration(0); }

  c10::intrusive_ptr<SilentWork> Begin() {
    const auto work = c10::make_intrusive<SilentWork>();
    record_.Record(ProgressOperation::kAllReduce, {},
                   [&] { return CollectiveRecord::WorkPtr(work); });
    return work;
  }
  static bool EndsWithin(std::chrono::seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (Now().unfinished() > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    return Now().unfinished() == 0;
  }

  CollectiveRecord record_{/*is_nccl=*/true, std::chrono::milliseconds(2)};
};

// A rank that loops outside of collectives. Seen red when works were polled only when the next
// collective began.
TEST_F(SilentWorkTest, ItsEndIsSeenThoughNoOtherCollectiveBegins) {
  const auto work = Begin();
  work->WaitUntilAsked();
  EXPECT_EQ(Now().unfinished(), 1u) << "it is under way";
  work->Complete();
  EXPECT_TRUE(EndsWithin(std::chrono::seconds(30)));
  EXPECT_EQ(Now().completed->number, Now().entered->number);
}

TEST_F(SilentWorkTest, OneThatFailsHasNotCompleted) {
  const auto work = Begin();
  work->Complete(/*succeeds=*/false);
  work->WaitUntilAsked();
  Begin()->WaitUntilAsked();
  EXPECT_EQ(Now().finished, 0u);
}

TEST_F(SilentWorkTest, TheNextCollectiveLooksAtOnce) {
  CollectiveRecord record(/*is_nccl=*/true, std::chrono::hours(1));
  const auto work = c10::make_intrusive<SilentWork>();
  const auto begin = [&] { return CollectiveRecord::WorkPtr(work); };
  record.Record(ProgressOperation::kAllReduce, {}, begin);
  work->Complete();
  record.Record(ProgressOperation::kAllReduce, {}, begin);
  EXPECT_EQ(Now().finished, 1u);
}

// From the second step on each bucket has one parameter.
TEST(RecordedGroupTest, TellsWhichBucketOfGradientsIsAveraged) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto net = std::make_shared<torch::nn::LinearImpl>(4, 2);
  DataParallelOptions options;
  options.first_bucket_bytes = 1;
  options.bucket_cap_mb = 1e-5;
  DistributedDataParallel<torch::nn::LinearImpl> model(ctx, net, options);
  const auto bucket_of_the_last = [&] {
    model.zero_grad();
    model.forward(torch::ones({2, 4})).sum().backward();
    return Now().entered->bucket;
  };
  EXPECT_EQ(bucket_of_the_last(), 0u) << "the first step has one bucket";
  EXPECT_EQ(bucket_of_the_last(), 1u);
  barrier(ctx);
  EXPECT_EQ(Now().entered->bucket, std::nullopt);
}

TEST(RecordedGroupTest, TellsTheBucketOfACommunicationHook) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto net = std::make_shared<torch::nn::LinearImpl>(4, 2);
  DistributedDataParallel<torch::nn::LinearImpl> model(ctx, net);
  model.register_comm_hook(fp16_compress(ctx));
  model.forward(torch::ones({2, 4})).sum().backward();
  EXPECT_EQ(Now().entered->bucket, 0u);
  // Of ten float16; where Gloo cannot add them, this rank's share of them.
  EXPECT_EQ(Now().entered->bytes, compat::kGlooAddsHalf ? 20u : 10u);
}

TEST(RecordedGroupTest, PhasesOfAProgram) {
  if (StartedRanks(1)) return;
  const Context ctx = init();
  const auto phase = [] { return Progress::Process().Read().phase_name; };
  EXPECT_EQ(phase(), "first_step");
  ctx.report_step(1);
  DistributedSampler sampler(10, ctx.world_size(), ctx.rank());
  sampler.next(2);
  EXPECT_EQ(phase(), "data");
  all_reduce_sum(ctx, 1.0);
  EXPECT_EQ(phase(), "step");
  {
    const Phase evaluation(ctx, "evaluation");
    EXPECT_EQ(Progress::Process().Read().phase, ProgressPhase::kEvaluation);
    const Phase own(ctx, "BLEU");
    EXPECT_EQ(phase(), "BLEU");
    const OptimizerStep in_step(ctx);
    EXPECT_TRUE(Progress::Process().Read().in_optimizer_step);
  }
  EXPECT_EQ(phase(), "step");
  EXPECT_FALSE(Progress::Process().Read().in_optimizer_step);
}

TEST(RecordedGroupTest, CanBeSwitchedOff) {
  if (StartedRanks(2, {{Progress::kSwitch, "off"}})) return;
  const Context ctx = init();
  EXPECT_EQ(all_reduce_sum(ctx, 1.0), 2.0);
  EXPECT_EQ(Now().entered->number, 0u);
}

}  // namespace recorded_group_test
}  // namespace ddp::internal
