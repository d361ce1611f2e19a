// The MNIST images and labels in memory.
#ifndef DDPRUN_WORKER_EXAMPLES_MNIST_DATASET_H_
#define DDPRUN_WORKER_EXAMPLES_MNIST_DATASET_H_

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mnist {

struct Batch {
  torch::Tensor images;  // float [n, 1, 28, 28], mean 0 and deviation 1 over MNIST
  torch::Tensor labels;  // int64 [n]
};

struct Dataset {
  torch::Tensor images;  // uint8 [size, 1, 28, 28]
  torch::Tensor labels;  // int64 [size], 0..9

  std::int64_t size() const { return images.size(0); }

  // The images at `indices`, on `device`.
  Batch Get(const std::vector<std::size_t>& indices, torch::Device device) const;
};

// Reads `part` ("train" or "t10k") from `directory`: at most `limit` images (0: all). Throws
// std::runtime_error like ReadIdx.
Dataset Load(const std::string& directory, const std::string& part, std::int64_t limit);

}  // namespace mnist

#endif  // DDPRUN_WORKER_EXAMPLES_MNIST_DATASET_H_
