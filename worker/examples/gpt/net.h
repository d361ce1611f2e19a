// The model: a transformer that predicts the next character from the previous ones. Each block has
// two parts: attention, and two linear layers. Each part follows a LayerNorm, and its result is
// added to its input ("pre-norm", like GPT-2).
#ifndef DDPRUN_WORKER_EXAMPLES_GPT_NET_H_
#define DDPRUN_WORKER_EXAMPLES_GPT_NET_H_

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <vector>

namespace gpt {

struct NetOptions {
  std::int64_t vocabulary = 0;
  std::int64_t depth = 0;
  std::int64_t width = 0;  // a multiple of heads
  std::int64_t heads = 0;
  std::int64_t context = 0;
  double dropout = 0;
};

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const NetOptions& options);

  // `x`: [n, t, width]. `later`: bool [t, t], true where a row must not see a column.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& later);

 private:
  torch::Tensor Attend(const torch::Tensor& x, const torch::Tensor& later);

  const std::int64_t heads_;
  const double dropout_;
  torch::nn::LayerNorm norm1_;
  torch::nn::Linear qkv_;
  torch::nn::Linear attended_;
  torch::nn::LayerNorm norm2_;
  torch::nn::Linear hidden_;
  torch::nn::Linear out_;
};
TORCH_MODULE(Block);

class Net : public torch::nn::Module {
 public:
  explicit Net(const NetOptions& options);

  // From int64 [n, t] to the logits of the next character, [n, t, vocabulary]. t is at most the
  // context.
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  const double dropout_;
  torch::nn::Embedding tokens_;
  torch::nn::Embedding places_;
  std::vector<Block> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear logits_;
};

}  // namespace gpt

#endif  // DDPRUN_WORKER_EXAMPLES_GPT_NET_H_
