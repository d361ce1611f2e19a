#include "worker/src/group/gradient_buckets.h"

#include <algorithm>
#include <utility>

namespace ddp::internal {

thread_local std::optional<std::uint32_t> InBucket::current_;

GradientBuckets& GradientBuckets::Process() {
  static GradientBuckets* const buckets = new GradientBuckets();
  return *buckets;
}

void GradientBuckets::Set(const void* owner, std::vector<const void*> memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  memory_[owner] = std::move(memory);
}

void GradientBuckets::Remove(const void* owner) {
  const std::lock_guard<std::mutex> lock(mutex_);
  memory_.erase(owner);
}

void GradientBuckets::OnAverage(std::function<void()> on_average) {
  const std::lock_guard<std::mutex> lock(calling_);
  is_called_ = on_average != nullptr;
  on_average_ = std::move(on_average);
}

void GradientBuckets::BeginAverage() {
  if (!is_called_) return;
  const std::lock_guard<std::mutex> lock(calling_);
  if (on_average_ != nullptr) on_average_();
}

std::optional<std::uint32_t> GradientBuckets::Find(const at::Tensor& tensor) const {
  const void* const memory = MemoryOf(tensor);
  if (memory == nullptr) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [owner, buckets] : memory_) {
    const auto found = std::find(buckets.begin(), buckets.end(), memory);
    if (found != buckets.end()) return static_cast<std::uint32_t>(found - buckets.begin());
  }
  return std::nullopt;
}

const void* MemoryOf(const at::Tensor& tensor) {
  const bool in_one_place = tensor.defined() && tensor.has_storage();
  return in_one_place ? tensor.data_ptr() : nullptr;
}

}  // namespace ddp::internal
