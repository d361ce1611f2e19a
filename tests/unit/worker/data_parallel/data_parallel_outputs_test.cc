// Tests in which types of forward's result DistributedDataParallel finds tensors. From these
// tensors it learns which parameters a step does not use.
#include <ddp/collectives.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "tests/unit/worker/support/heads.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace {

using test::Heads;
using test::StartedRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct UserOutput {
  torch::Tensor left;
  std::vector<torch::Tensor> right;
  std::string note;
};

struct Opaque {
  torch::Tensor left;
};

}  // namespace

template <>
struct OutputTensors<UserOutput> {
  template <typename Visit>
  static void for_each(UserOutput& output, Visit&& visit) {
    visit(output.left);
    visit(output.right);
    visit(output.note);
  }
};

namespace {

torch::Tensor Input(int step, int rank) {
  return torch::full({2, 3}, static_cast<float>(step + 2 * rank + 1)) * 0.1;
}

DataParallelOptions FindUnused() {
  DataParallelOptions options;
  options.find_unused_parameters = true;
  return options;
}

// Returns the result of `Make` for the outputs of both heads.
template <typename Make>
struct Returning : Heads {
  explicit Returning(Make make) : make(std::move(make)) {}
  auto forward(const torch::Tensor& x) {
    const torch::Tensor trunk_out = torch::relu(trunk(x) + 1);
    return make(left(trunk_out), right(trunk_out));
  }
  Make make;
};

// Trains with a result of one type. `use_left` takes the left head's tensor from it. The right
// head's tensor is in the result, or not in the graph at all. In both cases it gets no gradient.
template <typename Make, typename UseLeft>
void ExpectUnusedHeadIsFound(const Context& ctx, Make make, UseLeft use_left) {
  seed_everything(3);
  const auto net = std::make_shared<Returning<Make>>(make);
  const auto expected_net = std::make_shared<Returning<Make>>(make);
  DistributedDataParallel<Returning<Make>> model(ctx, net, FindUnused());
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < net->parameters().size(); ++i) {
      expected_net->parameters()[i].copy_(net->parameters()[i]);
    }
  }
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    auto result = model(Input(step, ctx.rank()));
    use_left(result).sum().backward();
    for (torch::Tensor& p : expected_net->parameters()) p.mutable_grad().reset();
    auto expected_result = expected_net->forward(Input(step, ctx.rank()));
    use_left(expected_result).sum().backward();
    for (const auto& item : expected_net->named_parameters()) {
      const torch::Tensor actual = net->named_parameters()[item.key()].grad();
      if (item.key().find("right") == 0) {
        EXPECT_FALSE(actual.defined()) << item.key();
        continue;
      }
      torch::Tensor mean = item.value().grad().clone();
      all_reduce_mean(ctx, mean);
      EXPECT_TRUE(torch::allclose(actual, mean)) << item.key() << " in step " << step;
    }
  }
}

// Seen red with the pass through the sink left out (gradients are then not averaged), and with the
// search left out (the Reducer then says that a parameter was marked as ready twice).
TEST(UnusedParametersTest, AreFoundInEveryTypeOfResult) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  using T = torch::Tensor;
  ExpectUnusedHeadIsFound(
      ctx, [](const T& l, const T&) { return l; }, [](T& r) { return r; });
  ExpectUnusedHeadIsFound(
      ctx, [](const T& l, const T& r) { return std::make_tuple(l, 7, r); },
      [](auto& r) { return std::get<0>(r); });
  ExpectUnusedHeadIsFound(
      ctx,
      [](const T& l, const T& r) {
        return std::vector<T>{l, r};
      },
      [](auto& r) { return r[0]; });
  ExpectUnusedHeadIsFound(
      ctx,
      [](const T& l, const T& r) {
        return std::map<std::string, T>{{"l", l}, {"r", r}};
      },
      [](auto& r) { return r["l"]; });
  ExpectUnusedHeadIsFound(
      ctx,
      [](const T& l, const T& r) { return std::make_pair(std::optional<T>(l), std::array{r}); },
      [](auto& r) { return *r.first; });
  ExpectUnusedHeadIsFound(
      ctx,
      [](const T& l, const T& r) {
        return std::variant<int, std::shared_ptr<std::pair<T, T>>>(
            std::make_shared<std::pair<T, T>>(l, r));
      },
      [](auto& r) { return std::get<1>(r)->first; });
  ExpectUnusedHeadIsFound(
      ctx,
      [](const T& l, const T& r) {
        return UserOutput{l, {r}, "note"};
      },
      [](auto& r) { return r.left; });
  ExpectUnusedHeadIsFound(
      ctx,
      [](const T& l, const T& r) {
        c10::Dict<std::string, T> dict;
        dict.insert("left", l);
        c10::List<T> list({r});
        return c10::IValue(std::make_tuple(dict, list, c10::IValue()));
      },
      [](c10::IValue& r) {
        return r.toTupleRef().elements()[0].toGenericDict().at("left").toTensor();
      });
  ExpectUnusedHeadIsFound(
      ctx,
      [](const T& l, const T& r) {
        return std::make_tuple(std::vector<bool>{true, false}, c10::List<T>({l, r}));
      },
      [](auto& r) { return std::get<1>(r).get(0); });
}

TEST(UnusedParametersTest, ThatDifferBetweenRanksGetTheMeanWithTheirZeros) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  struct Either : Heads {
    torch::Tensor forward(const torch::Tensor& x, bool use_right) {
      return (use_right ? right : left)(trunk(x));
    }
  };
  const auto net = std::make_shared<Either>();
  DistributedDataParallel<Either> model(ctx, net, FindUnused());
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    model(torch::ones({1, 3}), ctx.rank() == 1).sum().backward();
    // The bias of a head has gradient 1 on the one rank that uses it.
    EXPECT_TRUE(torch::equal(net->left->bias.grad(), torch::full({2}, 0.5f)));
    EXPECT_TRUE(torch::equal(net->right->bias.grad(), torch::full({2}, 0.5f)));
  }
}

TEST(UnusedParametersTest, AResultIntoWhichNobodyCanLookIsRefusedByTypeName) {
  if (StartedRanks(1)) return;
  const Context ctx = init();
  struct OpaqueNet : Heads {
    Opaque forward(const torch::Tensor& x) { return {left(trunk(x))}; }
  };
  const auto net = std::make_shared<OpaqueNet>();
  {
    DistributedDataParallel<OpaqueNet> model(ctx, net, FindUnused());
    try {
      model(torch::ones({1, 3}));
      FAIL() << "expected a ConfigError";
    } catch (const ConfigError& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("Opaque"), HasSubstr("ddp::OutputTensors")));
    }
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(model(torch::ones({1, 3})).left.defined());  // no search
  }
  // Without a search every result type works, also void.
  struct Silent : Heads {
    void forward(const torch::Tensor& x) { seen = (left(trunk(x)) + right(trunk(x))).sum(); }
    torch::Tensor seen;
  };
  const auto silent = std::make_shared<Silent>();
  DistributedDataParallel<Silent> model(ctx, silent);
  model(torch::ones({1, 3}));
  silent->seen.backward();
  EXPECT_TRUE(silent->left->bias.grad().defined());
}

}  // namespace
}  // namespace ddp
