// Tests gathering and scattering, with different data on each rank.
#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <ddp/gather.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace gather_test {

using test::StartedRanks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using torch::Tensor;

template <typename Exception, typename Function>
std::string TextOfError(const Function& function) {
  try {
    function();
  } catch (const Exception& e) {
    return e.what();
  }
  return "no error";
}

// The contribution of rank `rank`: rows that contain its number.
Tensor Rows(int rank, std::int64_t count, at::ScalarType dtype = torch::kFloat) {
  return torch::full({count, 3}, 10 + rank).to(dtype);
}

TEST(GatherTest, AllGatherTakesTensorsOfDifferentLengthsAndEveryDtype) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  for (const auto dtype :
       {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kInt64, torch::kInt16,
        torch::kUInt8, torch::kBool, torch::kComplexFloat}) {
    const std::vector<Tensor> all = all_gather(ctx, Rows(ctx.rank(), 2 * ctx.rank(), dtype));
    ASSERT_EQ(all.size(), 3u);
    for (int rank = 0; rank < 3; ++rank) {
      const Tensor& one = all[static_cast<std::size_t>(rank)];
      EXPECT_EQ(one.scalar_type(), dtype);
      EXPECT_TRUE(torch::equal(one, Rows(rank, 2 * rank, dtype))) << dtype << " of " << rank;
    }
  }
  const std::vector<Tensor> scalars = all_gather(ctx, torch::tensor(ctx.rank() + 0.5));
  EXPECT_EQ(scalars[2].dim(), 0);
  EXPECT_EQ(scalars[2].item<float>(), 2.5f);
  EXPECT_EQ(all_gather(ctx, torch::empty({0, 4}))[1].sizes(), (std::vector<std::int64_t>{0, 4}));
  const Tensor columns = Rows(ctx.rank(), 4).requires_grad_().t();  // neither contiguous nor a leaf
  const std::vector<Tensor> transposed = all_gather(ctx, columns);
  EXPECT_TRUE(torch::equal(transposed[1], Rows(1, 4).t()));
  EXPECT_FALSE(transposed[1].requires_grad());
  barrier(ctx);
}

// Only rank 1's tensor is long. Padded to its length, the tensors of all ranks would be three times
// as large.
TEST(GatherTest, AllGatherOfOneLongAndManyShortTensors) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  const auto length = [](int rank) { return rank == 1 ? std::int64_t{400'000} : rank / 2; };
  const std::vector<Tensor> all = all_gather(ctx, Rows(ctx.rank(), length(ctx.rank())));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(torch::equal(all[static_cast<std::size_t>(rank)], Rows(rank, length(rank))));
  }
  barrier(ctx);
}

TEST(GatherTest, TensorsThatDoNotGoTogetherAreTheSameErrorOnEveryRank) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  const bool odd = ctx.rank() == 2;
  const Tensor three = torch::ones({2, 3});
  EXPECT_EQ(
      TextOfError<ConfigError>([&] {
        all_gather(ctx, odd ? torch::ones({2, 4}) : three);
      }),
      "all_gather: rank 2 has Float [2, 4], rank 0 has Float [2, 3]. Dtype and all dimensions "
      "but the first must be the same on every rank");
  EXPECT_THAT(TextOfError<ConfigError>([&] { gather(ctx, odd ? three.to(torch::kInt) : three); }),
              HasSubstr("gather: rank 2 has Int [2, 3], rank 0 has Float [2, 3]"));
  EXPECT_THAT(TextOfError<ConfigError>([&] { all_gather(ctx, odd ? torch::ones({2}) : three); }),
              HasSubstr("rank 2 has Float [2]"));
  EXPECT_THAT(TextOfError<ConfigError>([&] { all_gather(ctx, odd ? Tensor() : three); }),
              HasSubstr("rank 2 has no dense tensor"));
  EXPECT_THAT(TextOfError<ConfigError>([&] { all_gather(ctx, odd ? three.to_sparse() : three); }),
              HasSubstr("rank 2 has no dense tensor"));
  EXPECT_EQ(all_gather(ctx, three).size(), 3u);  // the group still works
  barrier(ctx);
}

TEST(GatherTest, GatherReachesTheRootAlone) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  const std::vector<Tensor> at1 = gather(ctx, Rows(ctx.rank(), ctx.rank()), 1);
  ASSERT_EQ(at1.size(), ctx.rank() == 1 ? 3u : 0u);
  for (std::size_t i = 0; i < at1.size(); ++i) {
    const int rank = static_cast<int>(i);
    EXPECT_TRUE(torch::equal(at1[i], Rows(rank, rank)));
  }
  EXPECT_EQ(gather(ctx, torch::empty({0})).size(), ctx.rank() == 0 ? 3u : 0u);
  EXPECT_THAT(TextOfError<ConfigError>([&] { gather(ctx, torch::ones(1), 3); }),
              HasSubstr("gather to rank 3 in a job of 3 ranks"));
  const std::vector<std::string> texts =
      gather_object(ctx, std::string(static_cast<std::size_t>(ctx.rank()), 'x'), 2);
  if (ctx.rank() == 2) {
    EXPECT_THAT(texts, ElementsAre("", "x", "xx"));
  } else {
    EXPECT_TRUE(texts.empty());
  }
  barrier(ctx);
}

TEST(GatherTest, ScatterDealsOutTheRootsTensors) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  std::vector<Tensor> parts;
  if (ctx.rank() == 2)
    parts = {Rows(0, 4, torch::kBFloat16), Rows(1, 0, torch::kBFloat16),
             Rows(2, 1, torch::kBFloat16)};
  const std::int64_t lengths[] = {4, 0, 1};
  EXPECT_TRUE(torch::equal(scatter(ctx, parts, 2),
                           Rows(ctx.rank(), lengths[ctx.rank()], torch::kBFloat16)));
  EXPECT_THAT(TextOfError<AgreedError>([&] { scatter(ctx, {torch::ones(1)}, 1); }),
              HasSubstr("rank 1: scatter: 1 tensors for 3 ranks"));
  const Tensor one = torch::ones({1});
  EXPECT_THAT(TextOfError<AgreedError>([&] {
                scatter(ctx, {one, one, torch::ones({1, 1})});
              }),
              HasSubstr("rank 0: scatter: tensor 2 has Float [1, 1], tensor 0 has Float [1]"));
  barrier(ctx);
}

TEST(GatherTest, ReduceReachesTheRootAndLeavesTheOthersAlone) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  Tensor sum = torch::full({1000}, ctx.rank() + 1);
  reduce_sum(ctx, sum, 1);
  EXPECT_TRUE(torch::equal(sum, torch::full({1000}, ctx.rank() == 1 ? 6 : ctx.rank() + 1)));
  Tensor grid = torch::full({4, 2}, ctx.rank() + 1.0);
  Tensor column = grid.select(1, 1);  // not contiguous
  reduce_mean(ctx, column);
  EXPECT_EQ(grid[3][1].item<double>(), ctx.rank() == 0 ? 2.0 : ctx.rank() + 1.0);
  EXPECT_EQ(grid[3][0].item<double>(), ctx.rank() + 1.0);
  EXPECT_THROW(reduce_mean(ctx, sum), ConfigError);
  EXPECT_THROW(reduce_sum(ctx, grid, -1), ConfigError);
  barrier(ctx);
}

TEST(GatherTest, ObjectsAreTextsJsonAndIValues) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  const std::string bytes = std::string(static_cast<std::size_t>(ctx.rank()), '\0') + "\xff";
  EXPECT_THAT(all_gather_object(ctx, bytes),
              ElementsAre("\xff", std::string("\0\xff", 2), std::string("\0\0\xff", 3)));
  EXPECT_THAT(all_gather_object(ctx, ctx.rank() == 1 ? "host" : ""), ElementsAre("", "host", ""));

  const nlohmann::json mine = {{"rank", ctx.rank()}, {"loss", 0.5}};
  const std::vector<nlohmann::json> documents = all_gather_object(ctx, mine);
  EXPECT_EQ(documents[2]["rank"], 2);
  const nlohmann::json broken = ctx.rank() == 1 ? nlohmann::json("\xff") : mine;
  EXPECT_THAT(TextOfError<AgreedError>([&] { all_gather_object(ctx, broken); }),
              HasSubstr("rank 1: all_gather_object: "));

  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  dict.insert("rows", torch::full({ctx.rank() + 1, 2}, ctx.rank()));
  dict.insert("rank", ctx.rank());
  const std::vector<c10::IValue> values = all_gather_object(ctx, c10::IValue(dict));
  const auto from2 = values[2].toGenericDict();
  EXPECT_EQ(from2.at("rank").toInt(), 2);
  EXPECT_TRUE(torch::equal(from2.at("rows").toTensor(), torch::full({3, 2}, 2)));
  const c10::IValue odd =
      ctx.rank() == 2 ? c10::IValue(at::make_generator<at::CPUGeneratorImpl>()) : c10::IValue(1);
  EXPECT_THAT(TextOfError<AgreedError>([&] { all_gather_object(ctx, odd); }),
              HasSubstr("rank 2: all_gather_object: cannot pickle a Generator"));
  barrier(ctx);
}

// Short data travels with its size; longer data follows it.
TEST(GatherTest, TextsOfEveryLengthArriveWhole) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  for (const int length : {0, 1, 383, 384, 385, 4087, 4088, 4089, 100'000}) {
    const auto of_rank = [&](int rank) {
      return std::string(rank == 1 ? static_cast<std::size_t>(length) : 7u,
                         static_cast<char>('a' + rank));
    };
    const std::vector<std::string> all = {of_rank(0), of_rank(1), of_rank(2)};
    EXPECT_EQ(all_gather_object(ctx, of_rank(ctx.rank())), all) << length;
    EXPECT_EQ(broadcast(ctx, of_rank(ctx.rank()), 1), all[1]) << length;
    const auto at_root = gather_object(ctx, of_rank(ctx.rank()), 2);
    EXPECT_EQ(at_root, ctx.rank() == 2 ? all : std::vector<std::string>()) << length;
  }
}

TEST(GatherTest, AJobOfOneHasItsOwn) {
  if (StartedRanks(1)) return;
  const Context ctx = init();
  EXPECT_TRUE(torch::equal(all_gather(ctx, Rows(0, 2)).at(0), Rows(0, 2)));
  EXPECT_TRUE(torch::equal(gather(ctx, Rows(0, 2)).at(0), Rows(0, 2)));
  EXPECT_TRUE(torch::equal(scatter(ctx, {Rows(0, 2)}), Rows(0, 2)));
  EXPECT_THAT(all_gather_object(ctx, "x"), ElementsAre("x"));
  Tensor two = torch::full({2}, 2.0);
  reduce_mean(ctx, two);
  EXPECT_EQ(two[1].item<double>(), 2.0);
}

}  // namespace gather_test
}  // namespace ddp
