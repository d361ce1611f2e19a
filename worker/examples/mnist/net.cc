#include "worker/examples/mnist/net.h"

#include <torch/types.h>

namespace mnist {

Net::Net()
    : conv1_(torch::nn::Conv2dOptions(1, 16, 5).bias(false)),
      norm1_(16),
      conv2_(torch::nn::Conv2dOptions(16, 32, 5).bias(false)),
      norm2_(32),
      hidden_(32 * 4 * 4, 128),
      dropout_(0.25),
      out_(128, 10) {
  register_module("conv1", conv1_);
  register_module("norm1", norm1_);
  register_module("conv2", conv2_);
  register_module("norm2", norm2_);
  register_module("hidden", hidden_);
  register_module("dropout", dropout_);
  register_module("out", out_);
}

torch::Tensor Net::forward(const torch::Tensor& images) {
  torch::Tensor x = torch::max_pool2d(conv1_(images), 2);  // [n, 16, 12, 12]
  x = torch::relu(norm1_(x));
  x = torch::max_pool2d(conv2_(x), 2);  // [n, 32, 4, 4]
  x = torch::relu(norm2_(x));
  x = torch::relu(hidden_(x.flatten(1)));
  return torch::log_softmax(out_(dropout_(x)), 1);
}

}  // namespace mnist
