// Every job file in configs/ loads, and does what the README promises.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/config/yaml_config.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace shipped_configs_test {

JobConfig Load(const std::string& name) {
  const auto config = LoadJobFile(std::string(DDPRUN_CONFIGS_DIR) + "/" + name, FakeHost());
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(JobConfig());
}

std::set<std::string> JobFiles() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_CONFIGS_DIR)) {
    if (entry.path().extension() == ".yaml") names.insert(entry.path().filename());
  }
  return names;
}

TEST(ShippedConfigsTest, EachLoadsAndNamesItsSchema) {
  const auto names = JobFiles();
  EXPECT_GE(names.size(), 4U);
  for (const std::string& name : names) {
    EXPECT_EQ(Load(name).spec.max_restarts, 3) << name;
    std::ifstream file(std::string(DDPRUN_CONFIGS_DIR) + "/" + name);
    std::string first;
    std::getline(file, first);
    EXPECT_EQ(first, "# yaml-language-server: $schema=ddprun.schema.json") << name;
  }
}

TEST(ShippedConfigsTest, LocalIsOneNodeWithTwoWorkersAndNoDaemon) {
  const JobConfig job = Load("mnist_local.yaml");
  EXPECT_EQ(job.nodes.max, 1);
  EXPECT_EQ(job.nproc_per_node, 2);
  EXPECT_TRUE(job.standalone());
  EXPECT_EQ(job.command.front(), "build/bin/mnist_ddp");
  EXPECT_EQ(job.checkpoint_dir, "/home/user/checkpoints/mnist_local");
}

TEST(ShippedConfigsTest, GptIsOneNodeWithTwoWorkersAndNoDaemon) {
  const JobConfig job = Load("gpt_local.yaml");
  EXPECT_EQ(job.nodes.max, 1);
  EXPECT_EQ(job.nproc_per_node, 2);
  EXPECT_TRUE(job.standalone());
  EXPECT_EQ(job.command.front(), "build/bin/gpt_ddp");
  EXPECT_EQ(job.checkpoint_dir, "/home/user/checkpoints/gpt_local");
}

TEST(ShippedConfigsTest, TwoNodesHaveTwoWorkersEach) {
  const JobConfig job = Load("mnist_two_nodes.yaml");
  EXPECT_EQ(job.nodes.min, 2);
  EXPECT_EQ(job.nodes.max, 2);
  EXPECT_EQ(job.nproc_per_node, 2);
  EXPECT_EQ(job.rendezvous.endpoint, "127.0.0.1:29400");
  EXPECT_EQ(job.rendezvous.id, "mnist");
}

TEST(ShippedConfigsTest, HpcHasTwoNodesWithFourWorkersEach) {
  const JobConfig job = Load("mnist_hpc.yaml");
  EXPECT_EQ(job.nodes.min, 2);
  EXPECT_EQ(job.nodes.max, 2);
  EXPECT_EQ(job.nproc_per_node, 4);
  EXPECT_FALSE(job.standalone());
}

}  // namespace shipped_configs_test
}  // namespace ddprun
