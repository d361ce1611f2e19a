#include <ddp/distributed_sampler.h>
#include <ddp/errors.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace ddp {
namespace {

using Indices = std::vector<std::size_t>;

SamplerOptions InOrder(bool drop_last) {
  SamplerOptions options;
  options.shuffle = false;
  options.drop_last = drop_last;
  return options;
}

// All batches of what is left of the epoch.
std::vector<Indices> Drain(DistributedSampler& sampler, std::size_t batch_size) {
  std::vector<Indices> batches;
  while (auto batch = sampler.next(batch_size)) batches.push_back(*batch);
  return batches;
}

TEST(DistributedSamplerTest, PublishedExampleRepeatsFromTheFront) {
  const std::vector<Indices> expected = {{0, 3, 6, 9}, {1, 4, 7, 0}, {2, 5, 8, 1}};
  for (int rank = 0; rank < 3; ++rank) {
    DistributedSampler sampler(10, 3, rank, InOrder(false));
    EXPECT_EQ(sampler.indices(), expected[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(sampler.size(), 4u);
  }
}

TEST(DistributedSamplerTest, PublishedExampleDropsTheTail) {
  const std::vector<Indices> expected = {{0, 3, 6}, {1, 4, 7}, {2, 5, 8}};
  for (int rank = 0; rank < 3; ++rank) {
    DistributedSampler sampler(10, 3, rank, InOrder(true));
    EXPECT_EQ(sampler.indices(), expected[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(sampler.size(), 3u);
  }
}

// The data was made by Python's class: tests/python/make_sampler_data.py.
TEST(DistributedSamplerTest, EqualsPythonsIndices) {
  std::ifstream file(DDP_TEST_DATA "/sampler/distributed_sampler.json");
  const auto data = nlohmann::json::parse(file);
  ASSERT_GE(data["cases"].size(), 10u);
  for (const auto& test : data["cases"]) {
    const int replicas = test["num_replicas"];
    SamplerOptions options;
    options.shuffle = test["shuffle"];
    options.seed = test["seed"];
    options.drop_last = test["drop_last"];
    for (int rank = 0; rank < replicas; ++rank) {
      DistributedSampler sampler(test["dataset_size"], replicas, rank, options);
      sampler.set_epoch(test["epoch"]);
      const auto expected = test["indices"][static_cast<std::size_t>(rank)].get<Indices>();
      EXPECT_EQ(sampler.indices(), expected) << test << " rank " << rank;
      EXPECT_EQ(sampler.size(), expected.size());
    }
  }
}

TEST(DistributedSamplerTest, EpochsDifferAndTheDefaultGeneratorIsLeftAlone) {
  torch::manual_seed(3);
  const torch::Tensor expected = torch::rand(4);
  torch::manual_seed(3);
  DistributedSampler sampler(1000, 2, 0);
  const Indices first = sampler.indices();
  sampler.set_epoch(1);
  EXPECT_NE(sampler.indices(), first);
  sampler.set_epoch(0);
  EXPECT_EQ(sampler.indices(), first);
  EXPECT_TRUE(torch::equal(torch::rand(4), expected));
}

TEST(DistributedSamplerTest, GivesBatchesUntilTheEpochIsOver) {
  DistributedSampler sampler(10, 2, 1, InOrder(false));
  EXPECT_EQ(Drain(sampler, 2), (std::vector<Indices>{{1, 3}, {5, 7}, {9}}));
  EXPECT_EQ(sampler.position(), 5u);
  sampler.reset({});
  EXPECT_EQ(sampler.position(), 0u);
  EXPECT_EQ(Drain(sampler, 10), (std::vector<Indices>{{1, 3, 5, 7, 9}}));
}

TEST(DistributedSamplerTest, ResumesInTheMiddleOfAnEpochOnce) {
  DistributedSampler sampler(10, 2, 0, InOrder(false));
  sampler.set_epoch(4);
  sampler.start_at(3);
  EXPECT_EQ(Drain(sampler, 8), (std::vector<Indices>{{6, 8}}));

  sampler.start_at(3);
  sampler.reset({});  // as a DataLoader does at the start of an epoch
  EXPECT_EQ(Drain(sampler, 8), (std::vector<Indices>{{6, 8}}));
  sampler.reset({});
  EXPECT_EQ(Drain(sampler, 8), (std::vector<Indices>{{0, 2, 4, 6, 8}}));

  sampler.start_at(5);
  EXPECT_TRUE(Drain(sampler, 8).empty());
  EXPECT_THROW(sampler.start_at(6), ConfigError);
}

TEST(DistributedSamplerTest, WorksAsSamplerOfADataLoader) {
  struct Numbers : torch::data::Dataset<Numbers> {
    torch::data::Example<> get(std::size_t index) override {
      return {torch::tensor(static_cast<std::int64_t>(index)), torch::tensor(0)};
    }
    torch::optional<std::size_t> size() const override { return 10; }
  };
  DistributedSampler sampler(10, 2, 1, InOrder(false));
  sampler.start_at(2);
  auto loader = torch::data::make_data_loader(Numbers(), sampler, 2);
  std::vector<std::int64_t> seen;
  for (const auto& batch : *loader) {
    for (const auto& example : batch) seen.push_back(example.data.item<std::int64_t>());
  }
  EXPECT_EQ(seen, (std::vector<std::int64_t>{5, 7, 9}));
}

TEST(DistributedSamplerTest, ItsStateSurvivesAnArchive) {
  DistributedSampler sampler(100, 2, 0);
  sampler.set_epoch(7);
  sampler.next(11);
  torch::serialize::OutputArchive out;
  sampler.save(out);
  std::stringstream stream;
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  DistributedSampler restored(100, 2, 0);
  restored.load(in);
  EXPECT_EQ(restored.epoch(), 7u);
  EXPECT_EQ(Drain(restored, 5), Drain(sampler, 5));
}

TEST(DistributedSamplerTest, AnEmptyDatasetHasNoSamples) {
  DistributedSampler sampler(0, 3, 2);
  EXPECT_EQ(sampler.size(), 0u);
  EXPECT_FALSE(sampler.next(1));
}

TEST(DistributedSamplerTest, RefusesARankThatIsNotThere) {
  EXPECT_THROW(DistributedSampler(10, 3, 3), ConfigError);
  EXPECT_THROW(DistributedSampler(10, 3, -1), ConfigError);
  EXPECT_THROW(DistributedSampler(10, 0, 0), ConfigError);
}

}  // namespace
}  // namespace ddp
