// SlowTasks: a few threads for what a thread that serves everybody must not wait for: MUNGE, and
// the JSON of a large status.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_SLOW_TASKS_H_
#define DDPRUN_RENDEZVOUS_SERVICE_SLOW_TASKS_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace ddprun {

class SlowTasks {
 public:
  using Task = absl::AnyInvocable<void()>;

  SlowTasks() = default;
  // Runs what is still waiting, and ends the threads.
  ~SlowTasks();
  SlowTasks(const SlowTasks&) = delete;
  SlowTasks& operator=(const SlowTasks&) = delete;

  // Runs `task` on one of the threads, soon. From any thread; returns at once.
  void Post(Task task);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> waiting_;          // guarded by mutex_
  std::size_t idle_ = 0;              // threads; guarded by mutex_
  bool ending_ = false;               // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded by mutex_ until `ending_`
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_SLOW_TASKS_H_
