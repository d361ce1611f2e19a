#include "worker/src/group/recorded_group.h"

#include <ATen/core/ivalue.h>
#include <ddp/errors.h>
#include <pthread.h>

#include <exception>
#include <utility>

#include "worker/src/group/gradient_buckets.h"

namespace ddp::internal {
namespace {

std::uint64_t BytesOf(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    // A sparse tensor counts as a dense one, because the size that it sends is not known in
    // advance.
    if (tensor.defined()) {
      bytes += tensor.numel() * static_cast<std::int64_t>(tensor.dtype().itemsize());
    }
  }
  return static_cast<std::uint64_t>(bytes);
}

std::optional<std::uint32_t> BucketOf(ProgressOperation operation,
                                      const std::vector<at::Tensor>& tensors) {
  if (const auto bucket = InBucket::Current()) return bucket;
  if (operation != ProgressOperation::kAllReduce || tensors.size() != 1) return std::nullopt;
  return GradientBuckets::Process().Find(tensors.front());
}

// Null: this kind of work has no future.
c10::intrusive_ptr<c10::ivalue::Future> FutureOf(const CollectiveRecord::WorkPtr& work) {
  try {
    return work->getFuture();
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

CollectiveRecord::Begun CollectiveRecord::Enter(ProgressOperation operation, const Tensors& input) {
  TakeCompleted();
  Progress& progress = Progress::Process();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!group_) group_ = progress.NewGroup();
  const std::uint64_t bytes = BytesOf(input);
  const bool on_cpu = !input.empty() && input.front().defined() && input.front().is_cpu();
  const std::optional<std::uint32_t> bucket = BucketOf(operation, input);
  if (bucket) GradientBuckets::Process().BeginAverage();
  const std::uint64_t number = progress.Enter(*group_, operation, bytes, bucket);
  return {WorkPtr(), *group_, number, operation, bytes, on_cpu};
}

void CollectiveRecord::Complete(const Begun& begun) {
  Progress::Process().Complete(begun.group, begun.number, begun.operation, begun.bytes);
}

void CollectiveRecord::CompleteLater(Begun begun) {
  if (!begun.work.defined()) return;
  const bool tells = !is_nccl_ || begun.on_cpu;
  const auto future = tells ? FutureOf(begun.work) : c10::intrusive_ptr<c10::ivalue::Future>();
  if (!future.defined()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pending_.push_back(std::move(begun));
    if (!looker_.joinable()) {
      looker_ = std::jthread([this](const std::stop_token& stop) { LookWhileNothingMoves(stop); });
    }
    return;
  }
  begun.work.reset();  // breaks a cycle: the work owns the future, and the future owns the callback
  future->addCallback([begun = std::move(begun)](c10::ivalue::Future& done) {
    if (!done.hasError()) Complete(begun);  // a failed collective has not completed
  });
}

// Polls works without the lock, because the driver may answer slowly and training must not wait for
// it.
void CollectiveRecord::TakeCompleted() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!pending_.empty()) {
    const Begun first = pending_.front();
    lock.unlock();
    if (!first.work->isCompleted()) return;
    // Not isSuccess(), which throws for NCCL works (at the latest since libtorch 2.11).
    const bool succeeded = first.work->exception() == nullptr;
    lock.lock();
    // Another thread may have removed this work since.
    if (pending_.empty() || pending_.front().work != first.work) continue;
    if (succeeded) Complete(first);
    pending_.pop_front();
  }
}

void CollectiveRecord::LookWhileNothingMoves(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "ddp-looker");
  const Progress& progress = Progress::Process();
  std::uint64_t moves = progress.Read().moves;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ends_.wait_for(lock, stop, look_every_, [] { return false; }) && !stop.stop_requested()) {
    const bool waits = !pending_.empty();
    lock.unlock();
    const std::uint64_t before = std::exchange(moves, progress.Read().moves);
    if (waits && moves == before) TakeCompleted();
    lock.lock();
  }
}

}  // namespace ddp::internal
