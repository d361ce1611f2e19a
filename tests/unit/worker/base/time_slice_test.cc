// Tests ShortestTimeSlice: which threads get a short time slice.
#include "worker/src/base/time_slice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace ddp::internal {
namespace time_slice_test {

constexpr std::uint64_t kShort = 100'000;

TEST(TimeSliceTest, ThreadsStartedMeanwhileKeepItAndTheirStarterDoesNot) {
  const std::uint64_t usual = TimeSliceOf();
  if (usual == 0) GTEST_SKIP() << "this kernel has no slices of threads' own";
  ASSERT_GT(usual, kShort);
  std::uint64_t inherited = 0;
  std::thread thread;
  {
    const ShortestTimeSlice here;
    EXPECT_EQ(TimeSliceOf(), kShort);
    thread = std::thread([&] { inherited = TimeSliceOf(); });
  }
  thread.join();
  EXPECT_EQ(inherited, kShort);
  EXPECT_EQ(TimeSliceOf(), usual);
}

TEST(TimeSliceTest, ThreadsAndProcessesOfOneThatRunsAsSoonAsWokenDoNotInheritIt) {
  const std::uint64_t usual = TimeSliceOf();
  if (usual == 0) GTEST_SKIP() << "this kernel has no slices of threads' own";
  std::thread([usual] {
    ddprun::RunAsSoonAsWoken();
    EXPECT_EQ(TimeSliceOf(), kShort);
    std::thread([usual] { EXPECT_EQ(TimeSliceOf(), usual); }).join();
    const pid_t pid = fork();
    if (pid == 0) _exit(TimeSliceOf() == usual ? 0 : 1);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }).join();
}

TEST(TimeSliceTest, AThreadOfAnotherPolicyIsLeftAlone) {
  std::thread([] {
    const sched_param none = {};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    const ShortestTimeSlice here;
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
    EXPECT_EQ(TimeSliceOf(), 0u);
  }).join();
}

}  // namespace time_slice_test
}  // namespace ddp::internal
