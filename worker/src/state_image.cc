#include "worker/src/state_image.h"

#include <ddp/errors.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace ddp::internal {
namespace {

const std::vector<std::pair<torch::ScalarType, std::string>>& Dtypes() {
  static const auto* const kDtypes = new std::vector<std::pair<torch::ScalarType, std::string>>{
      {torch::kFloat64, "F64"},   {torch::kFloat32, "F32"}, {torch::kFloat16, "F16"},
      {torch::kBFloat16, "BF16"}, {torch::kInt64, "I64"},   {torch::kInt32, "I32"},
      {torch::kInt16, "I16"},     {torch::kInt8, "I8"},     {torch::kUInt8, "U8"},
      {torch::kBool, "BOOL"}};
  return *kDtypes;
}

}  // namespace

std::string DtypeName(const std::string& tensor, torch::ScalarType type) {
  for (const auto& [known, name] : Dtypes()) {
    if (known == type) return name;
  }
  throw CheckpointError("tensor " + tensor +
                        " has a dtype that a checkpoint cannot hold: " + c10::toString(type));
}

torch::ScalarType DtypeOf(const TensorInfo& info) {
  for (const auto& [type, known] : Dtypes()) {
    if (known == info.dtype) return type;
  }
  throw CheckpointError("tensor " + info.name + " has unknown dtype " + info.dtype);
}

StateImage::StateImage(std::vector<NamedTensor> tensors) {
  for (NamedTensor& item : tensors) {
    const torch::Tensor& tensor = item.tensor;
    items_.push_back(
        {{item.name, DtypeName(item.name, tensor.scalar_type()), tensor.sizes().vec()}, tensor, 0});
    has_gpu_tensors_ = has_gpu_tensors_ || tensor.is_cuda();
  }
  std::sort(items_.begin(), items_.end(),
            [](const Item& a, const Item& b) { return ComesFirst(a.info, b.info); });
  for (Item& item : items_) {
    item.offset = bytes_;
    bytes_ += static_cast<std::size_t>(item.tensor.nbytes());
  }
}

std::vector<TensorBytes> StateImage::CopyTo(std::byte* memory) const {
  const torch::NoGradGuard no_grad;
  std::vector<TensorBytes> result;
  for (const Item& item : items_) {
    const torch::Tensor& from = item.tensor;
    std::byte* const to = memory + item.offset;
    const auto size = static_cast<std::size_t>(from.nbytes());
    if (size > 0 && from.device().is_cpu() && from.is_contiguous()) {
      std::memcpy(to, from.data_ptr(), size);
    } else if (size > 0) {
      torch::from_blob(to, from.sizes(), from.scalar_type()).copy_(from, /*non_blocking=*/true);
    }
    result.push_back({item.info, to, size});
  }
  if (has_gpu_tensors_) torch::cuda::synchronize();
  return result;
}

}  // namespace ddp::internal
