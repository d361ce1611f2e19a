// Which threads get a short slice of the processor.
#include "worker/src/base/short_slice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace ddp::internal {
namespace short_slice_test {

constexpr std::uint64_t kShort = 100'000;

TEST(ShortSliceTest, ThreadsStartedMeanwhileKeepItAndTheirStarterDoesNot) {
  const std::uint64_t usual = SliceOf();
  if (usual == 0) GTEST_SKIP() << "this kernel has no slices of threads' own";
  ASSERT_GT(usual, kShort);
  std::uint64_t inherited = 0;
  std::thread thread;
  {
    const ShortSlice here;
    EXPECT_EQ(SliceOf(), kShort);
    thread = std::thread([&] { inherited = SliceOf(); });
  }
  thread.join();
  EXPECT_EQ(inherited, kShort);
  EXPECT_EQ(SliceOf(), usual);
}

TEST(ShortSliceTest, AThreadOfAnotherPolicyIsLeftAlone) {
  std::thread([] {
    const sched_param none = {};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    const ShortSlice here;
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
    EXPECT_EQ(SliceOf(), 0u);
  }).join();
}

}  // namespace short_slice_test
}  // namespace ddp::internal
