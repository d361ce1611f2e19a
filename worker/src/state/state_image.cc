#include "worker/src/state/state_image.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <ddp/errors.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/base/streaming_copy.h"
#include "worker/src/peers/lost_group.h"

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

// Always the same stream for a GPU, because libtorch's allocator reuses memory per stream.
c10::Stream CopyStreamOf(c10::Device gpu) {
  static std::mutex mutex;
  static auto* const streams = new std::vector<c10::Stream>;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const c10::Stream& stream : *streams) {
    if (stream.device() == gpu) return stream;
  }
  streams->push_back(c10::impl::VirtualGuardImpl(gpu.type()).getStreamFromGlobalPool(gpu));
  return streams->back();
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
    has_gpu_tensors_ = has_gpu_tensors_ || !tensor.device().is_cpu();
  }
  std::sort(items_.begin(), items_.end(),
            [](const Item& a, const Item& b) { return ComesFirst(a.info, b.info); });
  for (Item& item : items_) {
    item.offset = bytes_;
    bytes_ += static_cast<std::size_t>(item.tensor.nbytes());
  }
}

CheckpointImage StateImage::CopyTo(std::byte* memory) const {
  CheckpointImage image;
  image.await = Copy(memory);
  image.tensors = At(memory);
  return image;
}

CheckpointImage StateImage::CopyTo(std::byte* memory, std::byte* pinned) const {
  CheckpointImage image;
  image.await = [memory, pinned, bytes = bytes_, copied = Copy(pinned)] {
    if (copied != nullptr && !copied()) return false;
    StreamingCopy(memory, pinned, bytes);
    return true;
  };
  image.tensors = At(memory);
  return image;
}

std::vector<TensorBytes> StateImage::At(const std::byte* memory) const {
  std::vector<TensorBytes> result;
  for (const Item& item : items_) {
    result.push_back(
        {item.info, memory + item.offset, static_cast<std::size_t>(item.tensor.nbytes())});
  }
  return result;
}

std::function<bool()> StateImage::Copy(std::byte* memory) const {
  const torch::NoGradGuard no_grad;
  std::vector<c10::Device> gpus;
  for (const Item& item : items_) {
    const torch::Tensor& from = item.tensor;
    std::byte* const to = memory + item.offset;
    const auto size = static_cast<std::size_t>(from.nbytes());
    if (size == 0) continue;
    if (!from.device().is_cpu()) {
      const bool is_new = std::find(gpus.begin(), gpus.end(), from.device()) == gpus.end();
      if (is_new) gpus.push_back(from.device());
    } else if (from.is_contiguous()) {
      StreamingCopy(to, from.data_ptr(), size);
    } else {
      torch::from_blob(to, from.sizes(), from.scalar_type()).copy_(from);
    }
  }
  if (gpus.empty()) return nullptr;
  std::vector<c10::Stream> copies;
  for (const c10::Device gpu : gpus) copies.push_back(CopyFrom(gpu, memory));
  return [copies] {
    for (const c10::Stream& stream : copies) stream.synchronize();
    return !GroupIsLost();  // an aborted kernel ends only after the loss is known
  };
}

c10::Stream StateImage::CopyFrom(c10::Device gpu, std::byte* memory) const {
  const c10::impl::VirtualGuardImpl streams(gpu.type());
  const c10::Stream training = streams.getStream(gpu);
  const c10::Stream copying = CopyStreamOf(gpu);
  c10::Event ready(gpu.type());
  ready.record(training);
  ready.block(copying);
  {
    const c10::StreamGuard guard(copying);
    for (const Item& item : items_) {
      const torch::Tensor& from = item.tensor;
      if (from.device() != gpu || from.nbytes() == 0) continue;
      torch::from_blob(memory + item.offset, from.sizes(), from.scalar_type())
          .copy_(from, /*non_blocking=*/true);
    }
  }
  c10::Event done(gpu.type());
  done.record(copying);
  done.block(training);  // later changes of the tensors wait for the copy
  return copying;
}

}  // namespace ddp::internal
