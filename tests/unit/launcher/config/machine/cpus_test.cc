#include "launcher/config/machine/cpus.h"

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace cpus_test {

using testing::ElementsAre;
using testing::IsEmpty;

// A host's /sys, as Linux 6 writes it.
class FakeSysfs {
 public:
  const std::string& root() const { return folder_.path(); }

  void AddNode(int node, const std::string& cpus) {
    Write(absl::StrCat("node/node", node, "/cpulist"), cpus);
  }
  void AddCpu(int cpu, int socket, const std::string& siblings) {
    Write(absl::StrCat("cpu/cpu", cpu, "/topology/physical_package_id"), absl::StrCat(socket));
    Write(absl::StrCat("cpu/cpu", cpu, "/topology/thread_siblings_list"), siblings);
  }
  void AddCache(int cpu, int index, int level, const std::string& type, const std::string& cpus) {
    const std::string entry = absl::StrCat("cpu/cpu", cpu, "/cache/index", index);
    Write(entry + "/level", absl::StrCat(level));
    Write(entry + "/type", type);
    Write(entry + "/shared_cpu_list", cpus);
  }

 private:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root() + "/sys/devices/system/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  const TempDir folder_;
};

auto Facts(const Cpu& cpu) {
  return std::make_tuple(cpu.number, cpu.node, cpu.socket, cpu.core, cpu.cache);
}

TEST(CpuListTest, IsReadAndWrittenAsTheKernelDoes) {
  EXPECT_THAT(ParseCpuList("0-2,8, 10-11\n"), ElementsAre(0, 1, 2, 8, 10, 11));
  EXPECT_THAT(ParseCpuList("4,1-2,2"), ElementsAre(1, 2, 4));
  EXPECT_EQ(FormatCpuList({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
  EXPECT_EQ(FormatCpuList({3}), "3");
  EXPECT_EQ(FormatCpuList({}), "");
}

TEST(CpuListTest, WhatIsNoListIsSkipped) {
  EXPECT_THAT(ParseCpuList(""), IsEmpty());
  EXPECT_THAT(ParseCpuList("x,3-,-1,5-2,1-2-3,0-99999999"), ElementsAre(3));
}

TEST(CpusTest, SayTheirPlaceInTheMachine) {
  FakeSysfs sysfs;
  sysfs.AddNode(0, "0-1,4-5");
  sysfs.AddNode(1, "2-3,6-7");
  sysfs.AddNode(2, "");  // memory without CPUs
  for (int cpu = 0; cpu < 8; ++cpu) {
    const int core = cpu % 4;
    sysfs.AddCpu(cpu, core / 2, absl::StrCat(core, ",", core + 4));
    sysfs.AddCache(cpu, 0, 1, "Data", absl::StrCat(core, ",", core + 4));
    sysfs.AddCache(cpu, 3, 3, "Unified", core < 2 ? "0-1,4-5" : "2-3,6-7");
    sysfs.AddCache(cpu, 4, 4, "Instruction", absl::StrCat(cpu));
  }
  const auto cpus = ReadCpus(sysfs.root(), {1, 2, 7});
  ASSERT_EQ(cpus.size(), 3U);
  EXPECT_EQ(Facts(cpus[0]), std::make_tuple(1, 0, 0, 1, 0));
  EXPECT_EQ(Facts(cpus[1]), std::make_tuple(2, 1, 1, 2, 2));
  EXPECT_EQ(Facts(cpus[2]), std::make_tuple(7, 1, 1, 3, 2));
}

TEST(CpusTest, WithoutSysfsAreCoresOfOneNodeThatShareACache) {
  const FakeSysfs nothing;
  const auto cpus = ReadCpus(nothing.root(), {3, 5});
  ASSERT_EQ(cpus.size(), 2U);
  EXPECT_EQ(Facts(cpus[0]), std::make_tuple(3, 0, 0, 3, 3));
  EXPECT_EQ(Facts(cpus[1]), std::make_tuple(5, 0, 0, 5, 3));
}

TEST(CpusTest, ThoseOfTheMaskAreAllowed) {
  const CpuList all = AllowedCpus();
  ASSERT_FALSE(all.empty());
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(all.back(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_THAT(AllowedCpus(), ElementsAre(all.back()));
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(AllowedCpus(), all);
}

}  // namespace cpus_test
}  // namespace ddprun
