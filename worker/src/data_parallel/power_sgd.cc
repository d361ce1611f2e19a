#include <ATen/CPUGeneratorImpl.h>
#include <ddp/comm_hooks.h>
#include <ddp/errors.h>
#include <torch/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using torch::Tensor;
using torch::indexing::Slice;

// Makes the columns of each of `matrices` orthonormal, in place. The shape is [count, n, r].
// r is at most n.
void Orthogonalize(const Tensor& matrices, double epsilon) {
  const std::int64_t columns = matrices.size(2);
  if (columns > 2) {
    torch::Tensor(matrices).copy_(std::get<0>(at::linalg_qr(matrices)));
    return;
  }
  for (std::int64_t i = 0; i < columns; ++i) {
    Tensor column = matrices.narrow(2, i, 1);
    const Tensor norm = at::norm(column, 2, {1}, /*keepdim=*/true);
    column.div_(epsilon == 0 ? norm : norm + epsilon);
    if (i + 1 == columns) continue;
    Tensor rest = matrices.narrow(2, i + 1, columns - i - 1);
    rest.sub_(at::sum(column * rest, {1}, /*keepdim=*/true) * column);
  }
}

// Gives the same numbers as numpy.random.RandomState(seed).randint(1000000000). PyTorch's hook uses
// these numbers as seeds for its first approximations.
class Seeds {
 public:
  explicit Seeds(std::uint32_t seed) : generator_(seed) {}

  std::uint64_t Next() {
    constexpr std::uint32_t kMask = (std::uint32_t{1} << 30) - 1;
    for (;;) {
      const auto value = static_cast<std::uint32_t>(generator_()) & kMask;
      if (value < 1'000'000'000) return value;
    }
  }

 private:
  std::mt19937 generator_;
};

// A compressed gradient of shape [1, n, m], and its approximation P Qᵀ. p and q are views into a
// Memory.
struct Approximation {
  Tensor gradient;
  Tensor p;  // [1, n, r]
  Tensor q;  // [1, m, r]
};

class PowerSgd {
 public:
  PowerSgd(const Context& ctx, const PowerSgdOptions& options)
      : ctx_(ctx), options_(options), seeds_(options.random_seed) {}

  c10::intrusive_ptr<c10::ivalue::Future> Run(c10d::GradBucket& bucket) {
    const Tensor buffer = bucket.getBuffer();
    if (iteration_ < options_.start_power_sgd_iter) {
      if (bucket.isLast()) ++iteration_;
      std::vector<Tensor> tensors = {buffer.div_(ctx_.world_size())};
      return ctx_.process_group()->allreduce(tensors)->getFuture();
    }
    Compress(bucket, buffer);
    if (bucket.isLast()) ++iteration_;
    return finished(buffer);
  }

 private:
  // What is kept of a bucket from step to step.
  struct Memory {
    Tensor error;  // of the last step; undefined: none
    Tensor p;      // of all compressed gradients, one after the other
    Tensor q;
  };
  struct Parts {
    std::vector<Approximation> compressed;
    std::vector<Tensor> plain;
  };

  std::int64_t RankOf(const Tensor& matrix) const {
    return std::min<std::int64_t>(
        {matrix.size(0), matrix.size(1), options_.matrix_approximation_rank});
  }

  bool IsWorthIt(const Tensor& matrix) const {
    const std::int64_t n = matrix.size(0);
    const std::int64_t m = matrix.size(1);
    const auto compressed = static_cast<double>((n + m) * RankOf(matrix));
    return compressed * options_.min_compression_rate < static_cast<double>(n * m);
  }

  // Puts gradients of the same shape next to each other. The P and Q that all ranks add up have the
  // same order.
  Parts Split(c10d::GradBucket& bucket) const {
    Parts parts;
    std::vector<std::vector<Tensor>> by_shape;
    for (const Tensor& gradient : bucket.getGradients()) {
      const Tensor matrix = gradient.view({gradient.size(0), -1});
      if (!IsWorthIt(matrix)) {
        parts.plain.push_back(gradient);
        continue;
      }
      auto same = std::find_if(by_shape.begin(), by_shape.end(), [&](const auto& group) {
        return group[0].sizes() == matrix.sizes();
      });
      if (same == by_shape.end()) same = by_shape.insert(same, std::vector<Tensor>());
      same->push_back(matrix);
    }
    for (const std::vector<Tensor>& group : by_shape) {
      for (const Tensor& matrix : group) {
        parts.compressed.push_back({matrix.unsqueeze(0), Tensor(), Tensor()});
      }
    }
    return parts;
  }

  // Gives each approximation its place in `memory`. True: the place holds values of an earlier
  // step.
  bool Place(std::vector<Approximation>* approximations, Memory* memory,
             const torch::TensorOptions& like) const {
    std::int64_t ps = 0;
    std::int64_t qs = 0;
    for (const Approximation& a : *approximations) {
      ps += a.gradient.size(1) * RankOf(a.gradient[0]);
      qs += a.gradient.size(2) * RankOf(a.gradient[0]);
    }
    const bool warm = options_.warm_start && memory->p.defined() && memory->p.numel() == ps &&
                      memory->q.numel() == qs;
    if (!warm) {
      memory->p = torch::empty({ps}, like);
      memory->q = torch::empty({qs}, like);
    }
    ps = qs = 0;
    for (Approximation& a : *approximations) {
      const std::int64_t rank = RankOf(a.gradient[0]);
      const std::int64_t n = a.gradient.size(1);
      const std::int64_t m = a.gradient.size(2);
      a.p = memory->p.narrow(0, ps, n * rank).view({1, n, rank});
      a.q = memory->q.narrow(0, qs, m * rank).view({1, m, rank});
      ps += n * rank;
      qs += m * rank;
    }
    return warm;
  }

  void PrepareQ(const std::vector<Approximation>& approximations, bool warm) {
    at::Generator generator;
    if (!warm) generator = at::make_generator<at::CPUGeneratorImpl>(seeds_.Next());
    for (const Approximation& a : approximations) {
      if (!warm) {
        torch::Tensor(a.q).copy_(
            torch::randn(a.q.sizes(), generator, torch::TensorOptions(a.q.scalar_type())));
      }
      Orthogonalize(a.q, options_.orthogonalization_epsilon);
    }
  }

  void Sum(const Tensor& tensor) const {
    std::vector<Tensor> tensors = {tensor};
    ctx_.process_group()->allreduce(tensors)->wait();
  }

  void AverageAsTheyAre(const std::vector<Tensor>& gradients) const {
    if (gradients.empty()) return;
    std::vector<Tensor> flat;
    for (const Tensor& gradient : gradients) flat.push_back(gradient.reshape({-1}));
    Tensor all = torch::cat(flat);
    Sum(all);
    all.div_(ctx_.world_size());
    std::int64_t place = 0;
    for (const Tensor& gradient : gradients) {
      torch::Tensor(gradient).copy_(all.narrow(0, place, gradient.numel()).view(gradient.sizes()));
      place += gradient.numel();
    }
  }

  void Compress(c10d::GradBucket& bucket, const Tensor& buffer) {
    const torch::NoGradGuard no_grad;
    Memory& memory = memories_[bucket.getIndex()];
    Tensor exact;
    if (options_.use_error_feedback) {
      if (memory.error.defined() && memory.error.numel() == buffer.numel()) {
        Tensor(buffer).add_(memory.error);
      }
      exact = buffer.clone();
    }
    Parts parts = Split(bucket);
    const bool warm = Place(&parts.compressed, &memory, buffer.options());
    PrepareQ(parts.compressed, warm);
    for (Approximation& a : parts.compressed) at::bmm_out(a.p, a.gradient, a.q);
    AverageAsTheyAre(parts.plain);
    if (!parts.compressed.empty()) {
      Sum(memory.p);
      for (Approximation& a : parts.compressed) {
        Orthogonalize(a.p, options_.orthogonalization_epsilon);
        at::bmm_out(a.q, a.gradient.transpose(1, 2), a.p);
      }
      Sum(memory.q);
      memory.q.div_(ctx_.world_size());
      for (Approximation& a : parts.compressed) {
        at::bmm_out(a.gradient, a.p, a.q.transpose(1, 2));
      }
    }
    if (options_.use_error_feedback) memory.error = exact.sub_(buffer);
  }

  const Context& ctx_;  // the user's; outlives this
  const PowerSgdOptions options_;
  Seeds seeds_;
  std::int64_t iteration_ = 0;
  std::map<std::size_t, Memory> memories_;  // by bucket
};

}  // namespace

CommHook power_sgd(const Context& ctx, const PowerSgdOptions& options) {
  if (options.matrix_approximation_rank < 1) {
    throw ConfigError("PowerSgdOptions: matrix_approximation_rank must be at least 1");
  }
  if (options.start_power_sgd_iter <= 1 && (options.use_error_feedback || options.warm_start)) {
    throw ConfigError(
        "PowerSgdOptions: with use_error_feedback or warm_start, start_power_sgd_iter must be at "
        "least 2: the buckets are made anew after the first step, and what is kept is of a bucket");
  }
  const auto state = std::make_shared<PowerSgd>(ctx, options);
  return [state](c10d::GradBucket& bucket) { return state->Run(bucket); };
}

}  // namespace ddp
