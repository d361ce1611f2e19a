#include "worker/examples/gpt/net.h"

#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace gpt {
namespace {

constexpr double kDeviation = 0.02;  // of the initial weights
constexpr std::int64_t kHiddenFactor = 4;

torch::nn::LayerNorm MakeNorm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

void Initialize(torch::nn::Linear& linear, double deviation) {
  torch::nn::init::normal_(linear->weight, 0, deviation);
  torch::nn::init::zeros_(linear->bias);
}

}  // namespace

BlockImpl::BlockImpl(const NetOptions& options)
    : heads_(options.heads),
      dropout_(options.dropout),
      norm1_(MakeNorm(options.width)),
      qkv_(options.width, 3 * options.width),
      attended_(options.width, options.width),
      norm2_(MakeNorm(options.width)),
      hidden_(options.width, kHiddenFactor * options.width),
      out_(kHiddenFactor * options.width, options.width) {
  register_module("norm1", norm1_);
  register_module("qkv", qkv_);
  register_module("attended", attended_);
  register_module("norm2", norm2_);
  register_module("hidden", hidden_);
  register_module("out", out_);
  Initialize(qkv_, kDeviation);
  Initialize(hidden_, kDeviation);
  // Each block adds to the same sum twice. This value keeps the deviation of the sum the same at
  // any depth.
  const double added = kDeviation / std::sqrt(2.0 * static_cast<double>(options.depth));
  Initialize(attended_, added);
  Initialize(out_, added);
}

torch::Tensor BlockImpl::Attend(const torch::Tensor& x, const torch::Tensor& later) {
  const std::int64_t n = x.size(0);
  const std::int64_t t = x.size(1);
  const std::int64_t width = x.size(2);
  const std::int64_t size = width / heads_;
  // [3, n, heads, t, size]
  const torch::Tensor qkv = qkv_(x).view({n, t, 3, heads_, size}).permute({2, 0, 3, 1, 4});
  const torch::Tensor q = qkv[0] / std::sqrt(static_cast<double>(size));
  torch::Tensor share = torch::matmul(q, qkv[1].transpose(2, 3));
  share = share.masked_fill(later, -std::numeric_limits<float>::infinity());
  share = torch::dropout(torch::softmax(share, 3), dropout_, is_training());
  return attended_(torch::matmul(share, qkv[2]).transpose(1, 2).reshape({n, t, width}));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x, const torch::Tensor& later) {
  const torch::Tensor y = x + torch::dropout(Attend(norm1_(x), later), dropout_, is_training());
  return y + torch::dropout(out_(torch::gelu(hidden_(norm2_(y)))), dropout_, is_training());
}

Net::Net(const NetOptions& options)
    : dropout_(options.dropout),
      tokens_(options.vocabulary, options.width),
      places_(options.context, options.width),
      norm_(MakeNorm(options.width)),
      logits_(options.width, options.vocabulary) {
  register_module("tokens", tokens_);
  register_module("places", places_);
  for (std::int64_t i = 0; i < options.depth; ++i) {
    blocks_.push_back(register_module("block" + std::to_string(i), Block(options)));
  }
  register_module("norm", norm_);
  register_module("logits", logits_);
  torch::nn::init::normal_(tokens_->weight, 0, kDeviation);
  torch::nn::init::normal_(places_->weight, 0, kDeviation);
  Initialize(logits_, kDeviation);
}

torch::Tensor Net::forward(const torch::Tensor& tokens) {
  const std::int64_t t = tokens.size(1);
  const torch::Tensor later = torch::ones({t, t}, tokens.options().dtype(torch::kBool)).triu(1);
  torch::Tensor x = tokens_(tokens) + places_->weight.narrow(0, 0, t);
  x = torch::dropout(x, dropout_, is_training());
  for (Block& block : blocks_) x = block(x, later);
  return logits_(norm_(x));
}

}  // namespace gpt
