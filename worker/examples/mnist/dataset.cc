#include "worker/examples/mnist/dataset.h"

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "worker/examples/mnist/idx.h"

namespace mnist {
namespace {

constexpr std::uint32_t kSide = 28;
constexpr std::uint8_t kLargestLabel = 9;
constexpr double kMean = 0.1307 * 255;  // of the training set of MNIST; the usual values
constexpr double kDeviation = 0.3081 * 255;

torch::Tensor ToTensor(const IdxArray& array, torch::IntArrayRef shape) {
  torch::Tensor tensor = torch::empty(shape, torch::kUInt8);
  std::memcpy(tensor.data_ptr(), array.values.data(), array.values.size());
  return tensor;
}

}  // namespace

Batch Dataset::Get(const std::vector<std::size_t>& indices, torch::Device device) const {
  torch::Tensor index = torch::empty({static_cast<std::int64_t>(indices.size())}, torch::kInt64);
  std::copy(indices.begin(), indices.end(), index.data_ptr<std::int64_t>());
  const torch::Tensor pixels = images.index_select(0, index).to(device, torch::kFloat32);
  return {pixels.sub(kMean).div_(kDeviation), labels.index_select(0, index).to(device)};
}

Dataset Load(const std::string& directory, const std::string& part, std::int64_t limit) {
  const IdxArray images = ReadIdx(directory, part + "-images-idx3-ubyte", 3);
  const IdxArray labels = ReadIdx(directory, part + "-labels-idx1-ubyte", 1);
  const std::string where = "the " + part + " files in " + directory;
  if (images.extents[1] != kSide || images.extents[2] != kSide) {
    throw std::runtime_error(where + " have images of " + std::to_string(images.extents[1]) + "x" +
                             std::to_string(images.extents[2]) + " pixels, expected 28x28");
  }
  if (images.extents[0] != labels.extents[0]) {
    throw std::runtime_error(where +
                             " do not belong together: " + std::to_string(images.extents[0]) +
                             " images, but " + std::to_string(labels.extents[0]) + " labels");
  }
  if (*std::max_element(labels.values.begin(), labels.values.end()) > kLargestLabel) {
    throw std::runtime_error(where + " have a label beyond 9");
  }
  const std::int64_t count = images.extents[0];
  const std::int64_t kept = limit > 0 ? std::min(limit, count) : count;
  return {ToTensor(images, {count, 1, kSide, kSide}).slice(0, 0, kept),
          ToTensor(labels, {count}).slice(0, 0, kept).to(torch::kInt64)};
}

}  // namespace mnist
