// OutputCommit: nothing that a JobMachine says leaves the rendezvous before the state that it rests
// on is durable. It writes that state to the Store, and keeps back what was said after it, until
// the Store has it. Never waits itself.
//
// Owned by JobLoop; from within it only, by one thread at a time.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTPUT_COMMIT_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTPUT_COMMIT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/core/measures/histogram.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/job_machine.h"
#include "rendezvous/machine/job_record.h"
#include "rendezvous/service/job/served_job.h"
#include "rendezvous/store/store.h"

namespace ddprun {

// A HeartbeatAck depends on no state of the job, so it is never held back.
bool IsHeartbeatAck(const JobMachine::Action& action);

class OutputCommit {
 public:
  using Batch = std::uint64_t;  // the first is 1
  // What became of a batch, from any thread: must only enqueue (Store::Commit).
  using OnOutcome = std::function<void(Batch batch, Store::Outcome outcome)>;

  // `store` may be null: everything is durable at once. Not owned; outlives this object.
  OutputCommit(Store* store, OnOutcome on_outcome)
      : store_(store), on_outcome_(std::move(on_outcome)) {}

  // Writes the job's record. Returns the batch that what the job says next has to wait for, if any.
  std::optional<Batch> Persist(const ServedJob& job, const JobRecord& record);
  void Erase(const std::string& job);

  // Keeps `action` back if it has to wait: for `batch`, or behind others of its job. False: it is
  // to be performed now.
  bool Hold(const JobPtr& job, std::optional<Batch> batch, JobMachine::Action& action);

  // This batch and all before it are durable.
  void SetDurable(Batch batch);
  // How long batches took until they were; nullopt: nothing is written.
  std::optional<Histogram> times() const {
    return store_ == nullptr ? std::nullopt : std::optional(times_);
  }
  // When the oldest batch that is not durable yet went to the store; nullopt: all are.
  std::optional<TimePoint> waits_since() const {
    return committed_at_.empty() ? std::nullopt : std::optional(committed_at_.front());
  }
  // A job of which something was kept back that may be performed now, with TakeReleased; nullptr:
  // none.
  JobPtr NextReleased();
  std::optional<JobMachine::Action> TakeReleased(ServedJob& job) const;

 private:
  Batch Commit(Store::Batch batch);

  Store* const store_;
  const OnOutcome on_outcome_;
  Batch committed_ = 0;                 // the last that went to the store
  Batch durable_ = 0;                   // the last of these that is
  std::deque<TimePoint> committed_at_;  // of the batches after durable_
  Histogram times_;
  std::deque<std::pair<Batch, JobPtr>> waiting_;  // jobs of which something waits, by batch
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTPUT_COMMIT_H_
