// The model: two convolutions with batch normalization, two linear layers, dropout.
#ifndef DDPRUN_WORKER_EXAMPLES_MNIST_NET_H_
#define DDPRUN_WORKER_EXAMPLES_MNIST_NET_H_

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

namespace mnist {

class Net : public torch::nn::Module {
 public:
  Net();

  // From images [n, 1, 28, 28] to the log of the probabilities of the ten digits, [n, 10].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d norm1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d norm2_;
  torch::nn::Linear hidden_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear out_;
};

}  // namespace mnist

#endif  // DDPRUN_WORKER_EXAMPLES_MNIST_NET_H_
