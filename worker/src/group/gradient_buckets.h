// Which gradient bucket a collective averages: for the reports of hangs, and for LiveState, which
// acts before a bucket is averaged.
#ifndef DDPRUN_WORKER_SRC_GROUP_GRADIENT_BUCKETS_H_
#define DDPRUN_WORKER_SRC_GROUP_GRADIENT_BUCKETS_H_

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace ddp::internal {

// The bucket memory of this process's Reducers. A Reducer does not tell its process group which
// bucket it averages, but it averages in place, so the memory identifies the bucket. Any thread.
class GradientBuckets {
 public:
  // The one object of this process. Never destroyed.
  static GradientBuckets& Process();

  // `memory`: the buckets of `owner` in order, until the next call. Null entry: not known.
  void Set(const void* owner, std::vector<const void*> memory);
  void Remove(const void* owner);

  // `on_average` is called before any bucket is averaged, by the averaging thread; null: no longer.
  // Calls do not overlap.
  void OnAverage(std::function<void()> on_average);
  void BeginAverage();

  // The number, from 0, of the bucket in the memory of `tensor`.
  std::optional<std::uint32_t> Find(const at::Tensor& tensor) const;

 private:
  std::mutex calling_;                // held during on_average_()
  std::function<void()> on_average_;  // guarded by calling_
  std::atomic<bool> is_called_{false};
  mutable std::mutex mutex_;
  std::map<const void*, std::vector<const void*>> memory_;  // guarded by mutex_
};

// The address of the values; null: they are not in one place, as in a sparse tensor.
const void* MemoryOf(const at::Tensor& tensor);

// While this lives, the collectives that this thread begins belong to this bucket. For
// communication hooks, which may use tensors of their own. Does not nest.
class InBucket {
 public:
  explicit InBucket(std::uint32_t number) { current_ = number; }
  ~InBucket() { current_.reset(); }
  InBucket(const InBucket&) = delete;
  InBucket& operator=(const InBucket&) = delete;

  static std::optional<std::uint32_t> Current() { return current_; }

 private:
  static thread_local std::optional<std::uint32_t> current_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_GRADIENT_BUCKETS_H_
