#include "rendezvous/service/slow_tasks.h"

#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kMostThreads = 4;

}  // namespace

SlowTasks::~SlowTasks() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void SlowTasks::Post(Task task) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
  if (waiting_.size() > idle_ && threads_.size() < kMostThreads) {
    threads_.emplace_back([this] { Run(); });
  } else {
    changed_.notify_one();
  }
}

void SlowTasks::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace ddprun
