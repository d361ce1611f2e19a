// Which bucket of gradients a collective averages: for people who read about a hang, and for what
// is to be done before.
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

// Where the Reducers of this process keep their buckets. A Reducer does not tell its process group
// which bucket it averages, but it averages it in place. Any thread.
class GradientBuckets {
 public:
  // The process's own. Never destroyed.
  static GradientBuckets& Process();

  // `owner` has its buckets there, in their order, until it calls this again. Null: not known.
  void Set(const void* owner, std::vector<const void*> memory);
  void Remove(const void* owner);

  // Called before a bucket of any of them is averaged, by the thread that does; null: no more. One
  // at a time.
  void OnAverage(std::function<void()> on_average);
  void BeginAverage();

  // The number of the bucket that is in the memory of `tensor`, from 0.
  std::optional<std::uint32_t> Find(const at::Tensor& tensor) const;

 private:
  std::mutex calling_;                // held in calls
  std::function<void()> on_average_;  // guarded by calling_
  std::atomic<bool> is_called_{false};
  mutable std::mutex mutex_;
  std::map<const void*, std::vector<const void*>> memory_;  // guarded by mutex_
};

// Where a tensor's values are; null: in no one place, as those of a sparse tensor.
const void* MemoryOf(const at::Tensor& tensor);

// While this lives, collectives that this thread begins are of this bucket: those of a
// communication hook, which may have tensors of their own. Does not nest.
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
