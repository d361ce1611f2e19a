#include "rendezvous/service/completion_barrier.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>

namespace ddprun {
namespace completion_barrier_test {

constexpr std::size_t kMany = 100'000;
constexpr std::chrono::milliseconds kAWhile(50);  // to see that something does not happen
constexpr std::chrono::seconds kHang(60);

std::future<void> PassOnAnotherThread(CompletionBarrier& barrier) {
  return std::async(std::launch::async, [&barrier] { barrier.Pass(); });
}

TEST(CompletionBarrierTest, OthersWaitUntilTheBurstIsOver) {
  CompletionBarrier barrier;
  auto burst = std::make_unique<CompletionBarrier::Burst>(&barrier, kMany);
  const std::future<void> passed = PassOnAnotherThread(barrier);
  EXPECT_EQ(passed.wait_for(kAWhile), std::future_status::timeout);
  burst.reset();
  EXPECT_EQ(passed.wait_for(kHang), std::future_status::ready);
}

TEST(CompletionBarrierTest, AFewWritesHoldNobodyUp) {
  CompletionBarrier barrier;
  const CompletionBarrier::Burst burst(&barrier, 2);
  EXPECT_EQ(PassOnAnotherThread(barrier).wait_for(kHang), std::future_status::ready);
}

// If gRPC ever calls back on the thread that writes, this thread must not wait for itself.
TEST(CompletionBarrierTest, TheWriterItselfPasses) {
  CompletionBarrier barrier;
  const CompletionBarrier::Burst burst(&barrier, kMany);
  barrier.Pass();
}

}  // namespace completion_barrier_test
}  // namespace ddprun
