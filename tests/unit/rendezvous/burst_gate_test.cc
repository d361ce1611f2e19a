#include "rendezvous/service/burst_gate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>

namespace ddprun {
namespace burst_gate_test {

constexpr std::size_t kMany = 100'000;
constexpr std::chrono::milliseconds kAWhile(50);  // to see that something does not happen
constexpr std::chrono::seconds kHang(60);

std::future<void> PassOnAnotherThread(BurstGate& gate) {
  return std::async(std::launch::async, [&gate] { gate.Pass(); });
}

TEST(BurstGateTest, OthersWaitUntilTheBurstIsOver) {
  BurstGate gate;
  auto burst = std::make_unique<BurstGate::Burst>(&gate, kMany);
  const std::future<void> passed = PassOnAnotherThread(gate);
  EXPECT_EQ(passed.wait_for(kAWhile), std::future_status::timeout);
  burst.reset();
  EXPECT_EQ(passed.wait_for(kHang), std::future_status::ready);
}

TEST(BurstGateTest, AFewWritesHoldNobodyUp) {
  BurstGate gate;
  const BurstGate::Burst burst(&gate, 2);
  EXPECT_EQ(PassOnAnotherThread(gate).wait_for(kHang), std::future_status::ready);
}

// Should gRPC ever call back on the thread that writes, it must not wait for itself.
TEST(BurstGateTest, TheWriterItselfPasses) {
  BurstGate gate;
  const BurstGate::Burst burst(&gate, kMany);
  gate.Pass();
}

}  // namespace burst_gate_test
}  // namespace ddprun
