// Finds out which gradient bucket a collective averages. Its users are the reports of hangs, and
// LiveState (worker/src/checkpoint/live_state.h), which acts before a bucket is averaged.
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

// Knows the bucket memory of this process's Reducers. A Reducer does not tell its process group
// which bucket it averages. But it averages in place, so the memory identifies the bucket. Any
// thread.
class GradientBuckets {
 public:
  // The object of this process. Never destroyed.
  static GradientBuckets& Process();

  // The addresses of the buckets of `owner`, in order. They replace the addresses of an earlier
  // call. A null address: not known.
  void Set(const void* owner, std::vector<const void*> memory);
  void Remove(const void* owner);

  // From now on the averaging thread calls `on_average` before it averages a bucket. Calls do not
  // overlap. Null: no function is called any more.
  void OnAverage(std::function<void()> on_average);
  void BeginAverage();

  // The number, from 0, of the bucket whose memory `tensor` uses.
  std::optional<std::uint32_t> Find(const at::Tensor& tensor) const;

 private:
  std::mutex calling_;                // held during on_average_()
  std::function<void()> on_average_;  // guarded by calling_
  std::atomic<bool> is_called_{false};
  mutable std::mutex mutex_;
  std::map<const void*, std::vector<const void*>> memory_;  // guarded by mutex_
};

// The address of the tensor's values. Null: the values are not in one place, as in a sparse tensor.
const void* MemoryOf(const at::Tensor& tensor);

// While this object exists, collectives that this thread begins belong to this bucket. For
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
