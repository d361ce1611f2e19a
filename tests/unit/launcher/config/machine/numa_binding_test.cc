#include "launcher/config/machine/numa_binding.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace numa_binding_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two sockets with two NUMA nodes each. A node has four cores of two threads, CPUs n and n + 16,
// and two caches that two cores share: node 0 has CPUs 0-3 and 16-19.
std::vector<Cpu> Server() {
  std::vector<Cpu> cpus;
  for (int number = 0; number < 32; ++number) {
    const int core = number % 16;
    cpus.push_back({number, core / 4, core / 8, core, core / 2 * 2});
  }
  return cpus;
}

std::vector<Cpu> Allowed(const std::string& list) {
  const CpuList allowed = ParseCpuList(list);
  std::vector<Cpu> cpus = Server();
  std::erase_if(cpus, [&](const Cpu& cpu) {
    return !std::binary_search(allowed.begin(), allowed.end(), cpu.number);
  });
  return cpus;
}

const std::vector<int> kEightGpus = {0, 0, 1, 1, 2, 2, 3, 3};

struct Case {
  std::string mode;
  std::vector<int> nodes = kEightGpus;
  std::vector<Cpu> cpus = Server();
  int workers = 0;  // 0: one for each place
};

// The list of CPUs of each worker, or the error.
std::vector<std::string> Divide(const Case& given) {
  const int workers = given.workers > 0 ? given.workers : static_cast<int>(given.nodes.size());
  const auto lists = DivideCpus(given.mode, given.cpus, given.nodes, workers);
  if (!lists.ok()) return {std::string(lists.status().message())};
  std::vector<std::string> texts;
  for (const CpuList& list : *lists) texts.push_back(FormatCpuList(list));
  return texts;
}

TEST(DivideCpusTest, NodeIsAllOfTheGpusNode) {
  EXPECT_THAT(Divide({"node"}),
              ElementsAre("0-3,16-19", "0-3,16-19", "4-7,20-23", "4-7,20-23", "8-11,24-27",
                          "8-11,24-27", "12-15,28-31", "12-15,28-31"));
  EXPECT_THAT(Divide({"node", {3, 0}}), ElementsAre("12-15,28-31", "0-3,16-19"));
}

TEST(DivideCpusTest, SocketIsAllNodesOfTheGpusSocket) {
  EXPECT_THAT(Divide({"socket", {1, 2}}), ElementsAre("0-7,16-23", "8-15,24-31"));
  EXPECT_THAT(Divide({"socket", {0}, Allowed("2-5,8")}), ElementsAre("2-5"));
}

TEST(DivideCpusTest, ExclusiveDividesTheNodesCoresAmongItsGpus) {
  EXPECT_THAT(Divide({"exclusive"}),
              ElementsAre("0-1,16-17", "2-3,18-19", "4-5,20-21", "6-7,22-23", "8-9,24-25",
                          "10-11,26-27", "12-13,28-29", "14-15,30-31"));
  EXPECT_THAT(Divide({"exclusive", {0, 0, 0}}), ElementsAre("0-1,16-17", "2,18", "3,19"))
      << "the first one has the core that is left";
}

TEST(DivideCpusTest, ExclusiveLeavesTheSharesOfGpusWithoutAWorkerFree) {
  EXPECT_THAT(Divide({"exclusive", kEightGpus, Server(), 1}), ElementsAre("0-1,16-17"));
}

TEST(DivideCpusTest, ACoreIsNotSplitBetweenItsThreads) {
  EXPECT_THAT(Divide({"exclusive", {0, 0}, Allowed("0,16-17")}), ElementsAre("0,16", "17"));
  EXPECT_THAT(Divide({"exclusive", {0, 0}, Allowed("0,16")}),
              ElementsAre("--numa-binding exclusive: NUMA node 0 has 1 physical cores that this "
                          "process may use, and 2 GPUs or workers to share them"));
}

TEST(DivideCpusTest, CoreComplexIsOneCacheOfTheNodeInTurn) {
  EXPECT_THAT(Divide({"core-complex", {0, 0, 0, 3}}),
              ElementsAre("0-1,16-17", "2-3,18-19", "0-1,16-17", "12-13,28-29"));
  EXPECT_THAT(Divide({"core-complex", {0, 0}, Allowed("1-3,17")}), ElementsAre("1,17", "2-3"))
      << "equally large: the lower one first";
  EXPECT_THAT(Divide({"core-complex", {0, 0}, Allowed("1-3")}), ElementsAre("2-3", "1"))
      << "the larger one first";
}

TEST(DivideCpusTest, ANodeWhoseCpusAreNotAllowedIsNamedIfAWorkerNeedsIt) {
  EXPECT_THAT(Divide({"node", {0, 3}, Allowed("0-7")}),
              ElementsAre("--numa-binding node: this process may use no CPU of NUMA node 3, to "
                          "which local rank 1 belongs (only 0-7)"));
  EXPECT_THAT(Divide({"node", {0, 3}, Allowed("0-7"), 1}), ElementsAre("0-3"));
}

class BindWorkersTest : public testing::Test {
 protected:
  BindWorkersTest() { host_.places = Server(); }

  std::vector<std::string> Bind(const std::string& mode, int workers) {
    config_.program.numa_binding = mode;
    config_.nproc_per_node = workers;
    const auto binding = BindWorkers(config_, host_);
    if (!binding.ok()) return {std::string(binding.status().message())};
    warnings_ = binding->warnings;
    std::vector<std::string> texts;
    for (const CpuList& list : binding->cpus) texts.push_back(FormatCpuList(list));
    return texts;
  }

  FakeHost host_;
  JobConfig config_;
  std::vector<std::string> warnings_;
};

TEST_F(BindWorkersTest, WithoutTheFlagNobodyIsBound) { EXPECT_THAT(Bind("off", 8), IsEmpty()); }

TEST_F(BindWorkersTest, ALocalRankBelongsToTheGpuThatCudaCallsSo) {
  host_.gpu_nodes = {3, 2, 1, 0};
  EXPECT_THAT(Bind("node", 2), ElementsAre("12-15,28-31", "8-11,24-27"));
  host_.variables["CUDA_VISIBLE_DEVICES"] = "3,1";
  EXPECT_THAT(Bind("node", 2), ElementsAre("0-3,16-19", "8-11,24-27"));
  config_.env["CUDA_VISIBLE_DEVICES"] = "2";
  EXPECT_THAT(Bind("node", 1), ElementsAre("4-7,20-23"));
}

TEST_F(BindWorkersTest, MoreWorkersThanGpusAreRefused) {
  host_.gpu_nodes = {0, 1};
  EXPECT_THAT(Bind("node", 3), ElementsAre(HasSubstr(
                                   "--numa-binding node: each worker needs a GPU of its own (found "
                                   "3 workers and 2 visible GPUs); CUDA_VISIBLE_DEVICES= hides")));
  host_.variables["CUDA_VISIBLE_DEVICES"] = "";
  EXPECT_THAT(Bind("node", 3), ElementsAre("0-3,16-19", "4-7,20-23", "8-11,24-27"));
}

TEST_F(BindWorkersTest, WithoutGpusWorkersAreSpreadEvenlyNeighboursTogether) {
  EXPECT_THAT(Bind("node", 2), ElementsAre("0-3,16-19", "8-11,24-27"));
  EXPECT_THAT(Bind("exclusive", 6), ElementsAre("0-1,16-17", "2-3,18-19", "4-7,20-23", "8-9,24-25",
                                                "10-11,26-27", "12-15,28-31"));
  host_.places = Allowed("4-7,12");
  EXPECT_THAT(Bind("node", 3), ElementsAre("4-7", "4-7", "12")) << "nodes with no CPU are left out";
}

TEST_F(BindWorkersTest, AGpuWhoseNodeTheKernelDoesNotTellIsOnNode0) {
  host_.gpu_nodes = {1, -1};
  EXPECT_THAT(Bind("node", 2), ElementsAre("4-7,20-23", "0-3,16-19"));
  EXPECT_THAT(warnings_,
              ElementsAre("--numa-binding: the kernel does not tell the NUMA node of GPU "
                          "1; 0 is taken"));
  host_.places = Allowed("0-3");
  host_.gpu_nodes = {-1, -1};
  EXPECT_THAT(Bind("exclusive", 2), ElementsAre("0-1", "2-3"));
  EXPECT_THAT(warnings_, IsEmpty()) << "there is one node";
}

TEST_F(BindWorkersTest, AListedInstanceIsOfTheOnlyNodeWithGpusOrNotKnown) {
  host_.gpu_nodes = {2, 2};
  host_.variables["CUDA_VISIBLE_DEVICES"] = "MIG-a,MIG-b";
  EXPECT_THAT(Bind("node", 2), ElementsAre("8-11,24-27", "8-11,24-27"));
  host_.gpu_nodes = {2, 1};
  EXPECT_THAT(Bind("node", 2),
              ElementsAre("--numa-binding node: the driver does not report the GPU of entry 1 of "
                          "CUDA_VISIBLE_DEVICES; list GPUs by number"));
}

TEST_F(BindWorkersTest, AKernelThatTellsNoCpusIsAnError) {
  host_.places.clear();
  EXPECT_THAT(Bind("node", 1), ElementsAre(HasSubstr("does not tell which CPUs")));
}

}  // namespace numa_binding_test
}  // namespace ddprun
