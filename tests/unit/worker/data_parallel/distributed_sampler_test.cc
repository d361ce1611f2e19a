#include <ddp/distributed_sampler.h>
#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace ddp {
namespace distributed_sampler_test {

using Indices = std::vector<std::size_t>;

SamplerOptions InOrder(bool drop_last) {
  SamplerOptions options;
  options.shuffle = false;
  options.drop_last = drop_last;
  return options;
}

// All remaining batches of the epoch.
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

// Python's class made the data: tests/python/make_sampler_data.py.
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

// The loader works on a copy that the test cannot reach.
TEST(DistributedSamplerTest, ALoadersCopyFollowsTheEpoch) {
  struct Numbers : torch::data::Dataset<Numbers> {
    torch::data::Example<> get(std::size_t index) override {
      return {torch::tensor(static_cast<std::int64_t>(index)), torch::tensor(0)};
    }
    torch::optional<std::size_t> size() const override { return 100; }
  };
  DistributedSampler sampler(100, 2, 1);
  auto loader = torch::data::make_data_loader(Numbers(), sampler, 7);
  for (const std::size_t epoch : {3, 4, 5}) {
    sampler.set_epoch(epoch);
    Indices seen;
    for (const auto& batch : *loader) {
      for (const auto& example : batch) {
        seen.push_back(static_cast<std::size_t>(example.data.item<std::int64_t>()));
      }
    }
    DistributedSampler expected(100, 2, 1);
    expected.set_epoch(epoch);
    EXPECT_EQ(seen, expected.indices()) << "epoch " << epoch;
  }
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

// Runs one job from `state` until each rank has used `samples` more samples (SIZE_MAX: to the end).
// Returns how often all ranks together used each sample, and the state at the end.
SamplerState Use(std::size_t dataset_size, int replicas, const SamplerOptions& options,
                 const SamplerState& state, std::size_t samples, std::vector<int>& given) {
  SamplerState left;
  for (int rank = 0; rank < replicas; ++rank) {
    DistributedSampler sampler(dataset_size, replicas, rank, options);
    sampler.resume(state);
    sampler.set_epoch(state.epoch);
    std::size_t used = 0;
    while (used < samples) {
      const auto batch = sampler.next(std::min<std::size_t>(3, samples - used));
      if (!batch) break;
      for (const std::size_t index : *batch) ++given.at(index);
      used += batch->size();
    }
    EXPECT_EQ(used, sampler.position());
    EXPECT_TRUE(rank == 0 || sampler.state().to_string() == left.to_string());
    left = sampler.state();
  }
  return left;
}

TEST(SamplerResumeTest, EachSampleOfAnEpochIsUsedExactlyOnceWhateverTheWorldSizesWere) {
  std::mt19937 random(20240607);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int round = 0; round < 3000; ++round) {
    const std::size_t size = 1 + below(60);
    SamplerOptions options;
    options.shuffle = below(2) == 0;
    options.seed = below(5);
    options.drop_last = below(2) == 0;
    DistributedSampler first(size, 1, 0, options);
    first.set_epoch(below(4));
    SamplerState state = first.state();
    std::vector<int> given(size);
    std::ostringstream story;
    story << "round " << round << ", " << size << " samples, drop_last " << options.drop_last;
    // Some jobs stop before the end of the epoch; the last one runs to the end.
    int replicas = 1;
    for (std::size_t cuts = below(4); cuts > 0; --cuts) {
      replicas = static_cast<int>(1 + below(8));
      const std::size_t left = (size - state.consumed) / static_cast<std::size_t>(replicas);
      if (left == 0) continue;
      const std::size_t samples = below(left);
      story << ", " << samples << " on each of " << replicas;
      const std::uint64_t before = state.consumed;
      state = Use(size, replicas, options, state, samples, given);
      ASSERT_EQ(state.consumed, before + samples * static_cast<std::size_t>(replicas))
          << story.str();
      ASSERT_LE(*std::max_element(given.begin(), given.end()), 1) << story.str();
    }
    replicas = static_cast<int>(1 + below(8));
    story << ", the rest on " << replicas;
    const auto ranks = static_cast<std::size_t>(replicas);
    const std::size_t left = size - state.consumed;
    const SamplerState end = Use(size, replicas, options, state, SIZE_MAX, given);
    ASSERT_EQ(end.consumed, size) << story.str();
    const std::size_t tail = left % ranks;
    if (options.drop_last) {
      const auto missing = std::count(given.begin(), given.end(), 0);
      ASSERT_EQ(static_cast<std::size_t>(missing), tail) << story.str();
      ASSERT_LE(*std::max_element(given.begin(), given.end()), 1) << story.str();
    } else {
      // The padding is taken from the front of the order. A job of one rank shows the order.
      DistributedSampler whole(size, 1, 0, options);
      whole.set_epoch(state.epoch);
      std::vector<int> expected(size, 1);
      for (std::size_t i = 0; tail > 0 && i < ranks - tail; ++i) {
        ++expected[whole.indices()[i % size]];
      }
      ASSERT_EQ(given, expected) << story.str();
    }
    // An epoch that is over is over for every world size.
    std::vector<int> again(size);
    Use(size, 1, options, end, SIZE_MAX, again);
    ASSERT_EQ(again, std::vector<int>(size)) << story.str();
  }
}

TEST(SamplerResumeTest, TheSameWorldSizeGoesOnAsIfNothingHadHappened) {
  for (const bool drop_last : {false, true}) {
    for (int rank = 0; rank < 3; ++rank) {
      SamplerOptions options;
      options.drop_last = drop_last;
      options.seed = 11;
      DistributedSampler whole(50, 3, rank, options);
      whole.set_epoch(2);
      for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
        const Indices expected(whole.indices().begin() + static_cast<std::ptrdiff_t>(cut),
                               whole.indices().end());
        DistributedSampler resumed(50, 3, rank, options);
        resumed.resume(whole.state(cut));
        EXPECT_EQ(resumed.indices(), expected);
        EXPECT_EQ(resumed.size(), expected.size());
      }
      EXPECT_THROW(whole.state(whole.size() + 1), ConfigError);
    }
  }
}

TEST(SamplerResumeTest, OnlyTheResumedEpochBeginsInItsMiddle) {
  DistributedSampler sampler(10, 2, 1, InOrder(false));
  sampler.set_epoch(3);
  sampler.next(2);
  const SamplerState state = sampler.state();
  EXPECT_EQ(state.to_string(), "epoch=3 seed=0 dataset_size=10 shuffle=0 consumed=4");

  DistributedSampler loop(10, 3, 1, InOrder(false));
  loop.resume(state);
  EXPECT_EQ(loop.epoch(), 3u);
  loop.set_epoch(3);
  loop.set_epoch(3);
  EXPECT_EQ(Drain(loop, 8), (std::vector<Indices>{{5, 8}}));
  loop.set_epoch(4);
  EXPECT_EQ(Drain(loop, 8), (std::vector<Indices>{{1, 4, 7, 0}}));
  loop.set_epoch(4);
  EXPECT_EQ(loop.size(), 4u);

  loop.resume(state);
  loop.reset({});  // as a DataLoader does at the start of an epoch
  EXPECT_EQ(Drain(loop, 8), (std::vector<Indices>{{5, 8}}));
  loop.reset({});
  EXPECT_EQ(Drain(loop, 8), (std::vector<Indices>{{1, 4, 7, 0}}));

  loop.resume(state);
  loop.set_epoch(5);
  EXPECT_EQ(loop.size(), 4u);
}

TEST(SamplerResumeTest, AStateOfAnotherOrderIsRefusedByName) {
  SamplerOptions options;
  options.seed = 7;
  SamplerState state = DistributedSampler(12, 2, 0, options).state();
  options.seed = 8;
  options.shuffle = false;
  DistributedSampler other(10, 2, 0, options);
  try {
    other.resume(state);
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("dataset_size 12 there, 10 here, seed 7 there, 8 "
                                               "here, shuffle 1 there, 0 here"));
  }
  state = other.state(1);
  state.consumed = 11;
  EXPECT_THROW(other.resume(state), ConfigError);
  other.resume(other.state(1));
  EXPECT_THROW(other.reset(std::size_t{11}), ConfigError);
}

TEST(SamplerResumeTest, ItsTextIsReadBackAndNoOtherTextIs) {
  SamplerState state;
  state.epoch = 3;
  state.seed = UINT64_MAX;
  state.dataset_size = 60000;
  state.consumed = 1280;
  const std::string text = state.to_string();
  EXPECT_EQ(text, "epoch=3 seed=18446744073709551615 dataset_size=60000 shuffle=1 consumed=1280");
  EXPECT_EQ(SamplerState::from_string(text).to_string(), text);
  for (std::size_t size = 0; size < text.size() - 4; ++size) {
    EXPECT_THROW(SamplerState::from_string(text.substr(0, size)), ConfigError) << size;
  }
  for (const char* bad : {"epoch=3 seed=1 dataset_size=9 shuffle=1 consumed=10",
                          "epoch=3 seed=1 dataset_size=9 shuffle=2 consumed=1",
                          "epoch=-3 seed=1 dataset_size=9 shuffle=1 consumed=1",
                          "epoch=99999999999999999999 seed=1 dataset_size=9 shuffle=1 consumed=1",
                          "epoch=3 seed=1 dataset_size=9 shuffle=1 consumed=1 "}) {
    EXPECT_THROW(SamplerState::from_string(bad), ConfigError) << bad;
  }
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

}  // namespace distributed_sampler_test
}  // namespace ddp
