#include "launcher/config/host.h"

#include <sched.h>
#include <stdlib.h>

#include "gtest/gtest.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace host_test {

int VisibleWith(const char* devices) {
  FakeHost host;
  host.gpu_devices = 8;
  host.variables["CUDA_VISIBLE_DEVICES"] = devices;
  return VisibleGpuCount(host);
}

TEST(VisibleGpuCountTest, CountsDeviceFilesWhenNothingIsSet) {
  FakeHost host;
  EXPECT_EQ(VisibleGpuCount(host), 0);
  host.gpu_devices = 8;
  EXPECT_EQ(VisibleGpuCount(host), 8);
}

TEST(VisibleGpuCountTest, CudaVisibleDevicesWinsOverDeviceFiles) {
  EXPECT_EQ(VisibleWith("0,1"), 2);
  EXPECT_EQ(VisibleWith("3, 1, 0"), 3);
  EXPECT_EQ(VisibleWith("GPU-8932f937,MIG-GPU-1/0/0"), 2);
}

TEST(VisibleGpuCountTest, FirstInvalidEntryHidesTheRestAsInCuda) {
  EXPECT_EQ(VisibleWith(""), 0);
  EXPECT_EQ(VisibleWith("-1"), 0);
  EXPECT_EQ(VisibleWith("NoDevFiles"), 0);
  EXPECT_EQ(VisibleWith("0,1,-1,2"), 2);
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
