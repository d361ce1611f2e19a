#include "worker/src/base/background_thread.h"

#include <functional>
#include <mutex>
#include <utility>

namespace ddp::internal {

BackgroundThread::~BackgroundThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundThread::Start(std::function<void()> task) {
  Wait();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    task_ = std::move(task);
    busy_ = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
}

bool BackgroundThread::busy() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return busy_;
}

void BackgroundThread::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void BackgroundThread::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || task_ != nullptr; });
    if (task_ == nullptr) return;
    const std::function<void()> task = std::exchange(task_, nullptr);
    lock.unlock();
    task();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace ddp::internal
