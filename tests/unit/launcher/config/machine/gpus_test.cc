#include "launcher/config/machine/gpus.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace gpus_test {

using testing::ElementsAre;

// A host's /dev and /proc/driver/nvidia, as driver 580 writes them.
class FakeDriver {
 public:
  const std::string& root() const { return folder_.path(); }

  void AddGpu(int minor, const std::string& uuid = "") {
    Write(absl::StrCat("/dev/nvidia", minor), "");
    if (uuid.empty()) return;
    Write(absl::StrCat("/proc/driver/nvidia/gpus/0000:0", minor, ":00.0/information"),
          absl::StrCat("Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\nGPU UUID: \t ", uuid,
                       "\nDevice Minor: \t ", minor, "\nGPU Excluded:\t No\n"));
  }
  // With the PCI address `pci`. `node`: its NUMA node, as the kernel writes it.
  void AddGpuAt(int minor, const std::string& pci, const std::string& node,
                const std::string& uuid) {
    Write(absl::StrCat("/dev/nvidia", minor), "");
    Write("/proc/driver/nvidia/gpus/" + pci + "/information",
          absl::StrCat("GPU UUID: \t ", uuid, "\nDevice Minor: \t ", minor, "\n"));
    Write("/sys/bus/pci/devices/" + pci + "/numa_node", node + "\n");
  }
  // The device is listed, but cannot be opened, as under a cgroup that limits devices.
  void AddForbidden(const std::string& device) {
    std::filesystem::create_directories(absl::StrCat(root(), "/dev/nvidia-caps"));
    std::filesystem::create_symlink("nowhere", root() + device);
  }
  // Instance `gi` with the compute instance `ci`. The devices of their capabilities have these
  // numbers.
  void AddInstance(int minor, int gi, int ci, int gi_capability, int ci_capability) {
    const std::string folder =
        absl::StrCat("/proc/driver/nvidia/capabilities/gpu", minor, "/mig/gi", gi);
    Write(folder + "/access", Access(gi_capability));
    Write(absl::StrCat(folder, "/ci", ci, "/access"), Access(ci_capability));
  }
  void Allow(int capability) { Write(absl::StrCat("/dev/nvidia-caps/nvidia-cap", capability), ""); }
  void AddFile(const std::string& path) { Write(path, ""); }

 private:
  static std::string Access(int capability) {
    return absl::StrCat("DeviceFileMinor: ", capability,
                        "\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
  }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const TempDir folder_;
};

int CountOf(const FakeDriver& driver, const std::string& visible) {
  return CountVisible(ReadGpus(driver.root()), visible).count;
}

TEST(GpusTest, AHostWithoutADriverHasNone) {
  const FakeDriver driver;
  EXPECT_TRUE(ReadGpus(driver.root()).empty());
  EXPECT_EQ(CountVisible({}, std::nullopt).count, 0);
}

TEST(GpusTest, OtherDevicesOfTheDriverAreNoGpus) {
  FakeDriver driver;
  driver.AddGpu(0);
  driver.AddFile("/dev/nvidiactl");
  driver.AddFile("/dev/nvidia-uvm");
  driver.AddFile("/dev/nvidia-modeset");
  EXPECT_EQ(ReadGpus(driver.root()).size(), 1U);
}

TEST(GpusTest, OneThatMayNotBeOpenedDoesNotCount) {
  FakeDriver driver;
  driver.AddGpu(0);
  driver.AddForbidden("/dev/nvidia1");
  driver.AddGpu(2, "GPU-2222");
  const auto gpus = ReadGpus(driver.root());
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[1].uuid, "GPU-2222");
  EXPECT_EQ(CountOf(driver, "0,1,2"), 2) << "numbers count the GPUs that are left";
}

// Seen with CUDA 13 on a host with one GPU: "0,5" shows one, "5" none, "0,0" none.
TEST(GpusTest, NumbersCountUpToTheFirstThatIsNotThere) {
  FakeDriver driver;
  for (const int minor : {0, 1, 10}) driver.AddGpu(minor);
  EXPECT_EQ(CountOf(driver, "0,1"), 2);
  EXPECT_EQ(CountOf(driver, "2, 1, 0"), 3);
  EXPECT_EQ(CountOf(driver, "0,5,1"), 1);
  EXPECT_EQ(CountOf(driver, "5"), 0);
  EXPECT_EQ(CountOf(driver, "0,1,-1,2"), 2);
  EXPECT_EQ(CountOf(driver, "0,x"), 1);
}

TEST(GpusTest, NothingIsShownWhereTheVariableIsEmptyOrNamesOneTwice) {
  FakeDriver driver;
  driver.AddGpu(0, "GPU-1111");
  driver.AddGpu(1, "GPU-2222");
  for (const char* const none : {"", "-1", "NoDevFiles", "0,0", "GPU-1111,GPU-11"}) {
    EXPECT_EQ(CountOf(driver, none), 0) << none;
  }
}

TEST(GpusTest, AUuidMayBeShortenedWhileItNamesOneGpu) {
  FakeDriver driver;
  driver.AddGpu(0, "GPU-52d256f9-aea1");
  driver.AddGpu(1, "GPU-52ee0000-0000");
  EXPECT_EQ(CountOf(driver, "GPU-52d256f9-aea1,GPU-52ee0000-0000"), 2);
  EXPECT_EQ(CountOf(driver, "GPU-52d"), 1);
  EXPECT_EQ(CountOf(driver, "GPU-52"), 0);
  EXPECT_EQ(CountOf(driver, "GPU-999"), 0);
}

TEST(GpusTest, WhereTheDriverSaysNothingWhatIsWellFormedCounts) {
  EXPECT_EQ(CountVisible({}, "0,7").count, 2);
  EXPECT_EQ(CountVisible({Gpu(), Gpu()}, "GPU-1111,GPU-2222").count, 2);
}

TEST(GpusTest, InstancesOfADividedGpuCountInsteadOfIt) {
  FakeDriver driver;
  driver.AddGpu(0);
  driver.AddInstance(0, 1, 0, 10, 11);
  driver.AddInstance(0, 2, 0, 20, 21);
  driver.AddInstance(0, 3, 0, 30, 31);
  for (const int capability : {10, 11, 20, 21, 30}) driver.Allow(capability);
  driver.AddForbidden("/dev/nvidia-caps/nvidia-cap31");
  const VisibleGpus all = CountVisible(ReadGpus(driver.root()), std::nullopt);
  EXPECT_EQ(all.count, 2) << "the third one is somebody else's";
  EXPECT_TRUE(all.are_instances);
}

TEST(GpusTest, WhereGpusAreLeftWholeTheseCount) {
  FakeDriver driver;
  driver.AddGpu(0);
  driver.AddGpu(1);
  driver.AddInstance(1, 1, 0, 10, 11);
  driver.Allow(10);
  driver.Allow(11);
  const VisibleGpus all = CountVisible(ReadGpus(driver.root()), std::nullopt);
  EXPECT_EQ(all.count, 1);
  EXPECT_FALSE(all.are_instances);
}

TEST(GpusTest, InstancesMayBeListed) {
  const VisibleGpus listed = CountVisible({}, "MIG-aaaa,MIG-bbbb");
  EXPECT_EQ(listed.count, 2);
  EXPECT_TRUE(listed.are_instances);
  EXPECT_EQ(CountVisible({}, "MIG-aaaa,MIG-aaaa").count, 0);
}

// The NUMA nodes of the visible GPUs, as CUDA numbers them.
std::vector<int> NodesOf(const FakeDriver& driver, const std::optional<std::string>& visible) {
  const auto gpus = ReadGpus(driver.root());
  std::vector<int> nodes;
  for (const auto& owner : CountVisible(gpus, visible).owners) {
    nodes.push_back(gpus[owner.value()].numa_node);
  }
  return nodes;
}

TEST(GpusTest, AreNumberedByPciAddressAndSayTheirNumaNode) {
  FakeDriver driver;
  driver.AddGpuAt(0, "0000:b3:00.0", "2", "GPU-aaaa");
  driver.AddGpuAt(1, "0000:1b:00.0", "0", "GPU-bbbb");
  driver.AddGpuAt(2, "10000:01:00.0", "3", "GPU-cccc");
  driver.AddGpuAt(3, "0000:43:00.0", "-1", "GPU-dddd");
  EXPECT_THAT(NodesOf(driver, std::nullopt), ElementsAre(0, -1, 2, 3));
  EXPECT_THAT(NodesOf(driver, "3,0"), ElementsAre(3, 0));
  EXPECT_THAT(NodesOf(driver, "GPU-aa,GPU-bb"), ElementsAre(2, 0));
}

TEST(GpusTest, AreInTheOrderOfTheirFilesWhereAnAddressIsMissing) {
  FakeDriver driver;
  driver.AddGpuAt(0, "0000:b3:00.0", "1", "GPU-aaaa");
  driver.AddGpuAt(1, "0000:1b:00.0", "0", "GPU-bbbb");
  driver.AddGpu(2);
  EXPECT_THAT(NodesOf(driver, std::nullopt), ElementsAre(1, 0, -1));
}

TEST(GpusTest, AnInstanceIsOfItsGpuWhereAllAreShownAndOfNoKnownOneWhereItIsListed) {
  FakeDriver driver;
  driver.AddGpuAt(0, "0000:1b:00.0", "1", "GPU-aaaa");
  driver.AddInstance(0, 1, 0, 10, 11);
  driver.Allow(10);
  driver.Allow(11);
  EXPECT_THAT(NodesOf(driver, std::nullopt), ElementsAre(1));
  EXPECT_THAT(CountVisible(ReadGpus(driver.root()), "MIG-aaaa").owners, ElementsAre(std::nullopt));
}

}  // namespace gpus_test
}  // namespace ddprun
