// Which bucket of gradients a collective averages: for people who read about a hang.
#ifndef DDPRUN_WORKER_SRC_GROUP_GRADIENT_BUCKETS_H_
#define DDPRUN_WORKER_SRC_GROUP_GRADIENT_BUCKETS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
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

  // The number of the bucket that is in the memory of `tensor`, from 0.
  std::optional<std::uint32_t> Find(const at::Tensor& tensor) const;

 private:
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
