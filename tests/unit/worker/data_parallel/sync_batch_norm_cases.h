// Batches and a model for the tests of SyncBatchNorm.
#ifndef DDPRUN_TESTS_UNIT_WORKER_DATA_PARALLEL_SYNC_BATCH_NORM_CASES_H_
#define DDPRUN_TESTS_UNIT_WORKER_DATA_PARALLEL_SYNC_BATCH_NORM_CASES_H_

#include <ddp/ddp.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddp {
namespace sync_batch_norm_test {

using torch::Tensor;

inline constexpr std::int64_t kFeatures = 5;
// The largest allowed difference from one pass over the whole batch, for values around 1. Only the
// order of sums differs.
inline constexpr double kDoubleBound = 1e-13;
inline constexpr double kFloatBound = 1e-5;

inline double BoundOf(at::ScalarType dtype) {
  return dtype == torch::kFloat64 ? kDoubleBound : kFloatBound;
}

inline void ExpectNear(const Tensor& actual, const Tensor& expected, double bound,
                       const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  if (actual.numel() == 0) return;
  // Also fails if the distance is NaN: then the comparison is false.
  const double distance = (actual - expected).abs().max().item<double>();
  EXPECT_TRUE(distance <= bound) << what << " differs by " << distance;
}

inline bool SameBits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.equal(b);
}

// The batch of all ranks together, equal on every rank: [sum of `sizes`, kFeatures, rest...]. Each
// feature has a mean of its own.
inline Tensor WholeBatch(const std::vector<std::int64_t>& sizes, std::vector<std::int64_t> rest,
                         at::ScalarType dtype, std::uint64_t seed) {
  std::int64_t batch = 0;
  for (const std::int64_t size : sizes) batch += size;
  std::vector<std::int64_t> shape = {batch, kFeatures};
  shape.insert(shape.end(), rest.begin(), rest.end());
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const Tensor values = torch::randn(shape, generator, torch::kFloat64);
  std::vector<std::int64_t> spread(shape.size(), 1);
  spread[1] = kFeatures;
  return (values + torch::linspace(-2, 2, kFeatures, torch::kFloat64).view(spread)).to(dtype);
}

// The part of this rank in the whole batch.
inline Tensor PartOf(const Tensor& whole, const std::vector<std::int64_t>& sizes, int rank) {
  std::int64_t begin = 0;
  for (int i = 0; i < rank; ++i) begin += sizes[static_cast<std::size_t>(i)];
  return whole.narrow(0, begin, sizes[static_cast<std::size_t>(rank)]).clone();
}

struct Net : torch::nn::Module {
  explicit Net(bool plain) : plain_(plain) {
    register_module("in", in);
    if (plain) {
      register_module("norm", plain_norm);
    } else {
      register_module("norm", norm);
    }
    register_module("out", out);
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = in(x);
    return out(torch::relu(plain_ ? plain_norm(y) : norm(y)));
  }
  const bool plain_;
  torch::nn::Linear in{6, kFeatures};
  SyncBatchNorm norm{kFeatures};
  torch::nn::BatchNorm1d plain_norm{kFeatures};
  torch::nn::Linear out{kFeatures, 1};
};

}  // namespace sync_batch_norm_test
}  // namespace ddp

#endif  // DDPRUN_TESTS_UNIT_WORKER_DATA_PARALLEL_SYNC_BATCH_NORM_CASES_H_
