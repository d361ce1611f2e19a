// StackWorker: unpacks, merges and judges the stacks of all jobs, on a thread of its own.
//
// JobLoop cannot do it: its thread answers the agents of all jobs, and judging the stacks of
// 131,072 ranks takes tens of milliseconds. The worker's thread has a lower priority.
//
// Perform(): called by one thread at a time.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_STACK_WORKER_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_STACK_WORKER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "rendezvous/hangs/stack_findings.h"
#include "rendezvous/machine/job_machine.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class StackWorker {
 public:
  // Gets an event for the JobMachine of `job`. Called on the worker's thread; must only enqueue.
  using Done = std::function<void(const std::string& job, JobMachine::Event event)>;

  explicit StackWorker(Done done) : done_(std::move(done)) {}
  StackWorker(const StackWorker&) = delete;
  StackWorker& operator=(const StackWorker&) = delete;

  // Performs an action of `job`'s JobMachine. Returns at once.
  void Perform(const std::string& job, JobMachine::MergeStacks merge);
  void Perform(const std::string& job, JobMachine::JudgeStacks judge);
  void Perform(const std::string& job, JobMachine::ForgetStacks forget);
  // Waits until all queued work is done.
  void Wait() { tasks_.Wait(); }

 private:
  // The job's name and the request id.
  using Key = std::pair<std::string, std::uint64_t>;
  struct Merge {
    StackMerge stacks;
    std::size_t untold = 0;  // merged trees not yet reported to the JobMachine
  };

  template <class Task>
  void Post(Task task);

  const Done done_;
  std::map<Key, Merge> merges_;          // used by the worker's thread only
  std::atomic<std::size_t> queued_ = 0;  // tasks
  TaskQueue tasks_{"stacks"};            // last: its thread uses all of the above
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_STACK_WORKER_H_
