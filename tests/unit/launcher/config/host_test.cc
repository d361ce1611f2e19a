#include "launcher/config/host.h"

#include <sched.h>
#include <stdlib.h>

#include "gtest/gtest.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace host_test {

TEST(VisibleGpusTest, AreTheHostsOrThoseOfTheVariable) {
  FakeHost host;
  EXPECT_EQ(VisibleGpusOf(host).count, 0);
  host.gpu_devices = 8;
  EXPECT_EQ(VisibleGpusOf(host).count, 8);
  host.variables["CUDA_VISIBLE_DEVICES"] = "0,1";
  EXPECT_EQ(VisibleGpusOf(host).count, 2);
}

// The variable was copied to a machine without GPUs, or the cgroup forbids all GPUs. Seen red when
// only the variable counted.
TEST(VisibleGpusTest, WhereNoneMayBeOpenedTheVariableNamesNone) {
  FakeHost host;
  host.variables["CUDA_VISIBLE_DEVICES"] = "0,1,2";
  EXPECT_EQ(VisibleGpusOf(host).count, 0);
  host.other_gpus = true;
  EXPECT_EQ(VisibleGpusOf(host).count, 3);
}

TEST(PosixHostTest, CpuCountFollowsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(PosixHost().CpuCount(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(PosixHost().CpuCount(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(PosixHostTest, TellsAnEmptyVariableFromAMissingOne) {
  ASSERT_EQ(setenv("DDPRUN_HOST_TEST", "", 1), 0);
  EXPECT_EQ(PosixHost().Environment("DDPRUN_HOST_TEST"), "");
  ASSERT_EQ(unsetenv("DDPRUN_HOST_TEST"), 0);
  EXPECT_EQ(PosixHost().Environment("DDPRUN_HOST_TEST"), std::nullopt);
}

TEST(PosixHostTest, CurrentDirectoryIsAbsolute) {
  EXPECT_EQ(PosixHost().CurrentDirectory().front(), '/');
}

}  // namespace host_test
}  // namespace ddprun
