#include "worker/src/group/gloo_loops.h"

#include <ddp/ddp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp::internal {
namespace gloo_loops_test {

using std::chrono::steady_clock;

constexpr int kDevices = 10;
constexpr std::chrono::milliseconds kMoment(2);  // after it, the loop of a new device waits

// Destroying a device waits until its event loop goes round.
steady_clock::duration TimeToDestroyDevices() {
  steady_clock::duration sum{};
  for (int i = 0; i < kDevices; ++i) {
    std::shared_ptr<gloo::transport::Device> device;
    GlooLoops::Of([&] { device = c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"); });
    std::this_thread::sleep_for(kMoment);
    const auto begin = steady_clock::now();
    device.reset();
    sum += steady_clock::now() - begin;
  }
  return sum;
}

// Without the timer, each device takes up to 10 ms.
TEST(GlooHasteTest, ALoopGoesRoundMoreOften) {
#if !defined(DDPRUN_GLOO_FITS) || __has_include(<gloo/common/store.h>)
  GTEST_SKIP() << "this Gloo has no such waits, or its headers are of another version";
#endif
  const auto idle = TimeToDestroyDevices();
  std::optional<GlooHaste> first;
  first.emplace();
  {
    const GlooHaste second;
    EXPECT_LT(TimeToDestroyDevices() * 2, idle);
  }
  EXPECT_LT(TimeToDestroyDevices() * 2, idle)
      << "the second one has stopped the timer of the first";
  first.reset();
  EXPECT_GT(TimeToDestroyDevices() * 2, idle) << "the timer still runs";
}

// A rank that is connected may end before the others have noticed their connection to it.
TEST(GlooGroupTest, ARankThatEndsAtOnceBreaksNoOther) {
  if (test::StartedRanks(6)) return;
  init();
}

}  // namespace gloo_loops_test
}  // namespace ddp::internal
