#include "launcher/metrics/cgroup_use.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace ddprun {
namespace cgroup_use_test {

void Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(CgroupUseTest, ReadsTheGroupThatTheProcessIsIn) {
  const TempDir dir;
  const std::filesystem::path root(dir.path());
  Write(root / "proc/cgroup", "1:name=systemd:/x\n0::/job/n1\n");
  Write(root / "sys/job/n1/memory.current", "1048576\n");
  Write(root / "sys/job/n1/memory.max", "4194304\n");
  Write(root / "sys/job/n1/cpu.stat", "usage_usec 900\nthrottled_usec 250000\n");
  const CgroupUse use = ReadCgroupUse(root / "proc", root / "sys");
  EXPECT_EQ(use, (CgroupUse{1048576, 4194304, std::chrono::microseconds(250000)}));
}

TEST(CgroupUseTest, NoLimitIsNone) {
  const TempDir dir;
  const std::filesystem::path root(dir.path());
  Write(root / "proc/cgroup", "0::/\n");
  Write(root / "sys/memory.max", "max\n");
  EXPECT_EQ(ReadCgroupUse(root / "proc", root / "sys"), CgroupUse());
}

TEST(CgroupUseTest, VersionOneTellsNothing) {
  const TempDir dir;
  const std::filesystem::path root(dir.path());
  Write(root / "proc/cgroup", "4:memory:/job\n");
  EXPECT_EQ(ReadCgroupUse(root / "proc", root / "sys"), CgroupUse());
}

}  // namespace cgroup_use_test
}  // namespace ddprun
