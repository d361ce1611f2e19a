// OutputCommit: holds back a JobMachine's actions until the record that they depend on is durable.
// It writes the record to the Store, and releases the later actions once the record is durable.
// Never blocks.
//
// Owned by JobLoop, and called only from within it, by one thread at a time.
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

// A HeartbeatAck depends on no job record, so it is never held back.
bool IsHeartbeatAck(const JobMachine::Action& action);

class OutputCommit {
 public:
  using Batch = std::uint64_t;  // the first is 1
  // The result of a batch. Called from any thread; must only enqueue (Store::Commit).
  using OnOutcome = std::function<void(Batch batch, Store::Outcome outcome)>;

  // `store` null: everything counts as durable at once. Not owned; outlives this object.
  OutputCommit(Store* store, OnOutcome on_outcome)
      : store_(store), on_outcome_(std::move(on_outcome)) {}

  // Writes the job's record. Returns the batch for which the job's next actions have to wait;
  // nullopt: they need not wait.
  std::optional<Batch> Persist(const ServedJob& job, const JobRecord& record);
  void Erase(const std::string& job);

  // Holds `action` back if it has to wait for `batch` or behind other actions of its job. False:
  // perform the action now.
  bool Hold(const JobPtr& job, std::optional<Batch> batch, JobMachine::Action& action);

  // Call it when this batch and all batches before it are durable.
  void SetDurable(Batch batch);
  // How long commits took; nullopt: no store.
  std::optional<Histogram> times() const {
    return store_ == nullptr ? std::nullopt : std::optional(times_);
  }
  // When the oldest batch that is not yet durable was given to the store; nullopt: all are durable.
  std::optional<TimePoint> waits_since() const {
    return committed_at_.empty() ? std::nullopt : std::optional(committed_at_.front());
  }
  // A job with held actions that can be performed now (TakeReleased); nullptr: there is none.
  JobPtr NextReleased();
  std::optional<JobMachine::Action> TakeReleased(ServedJob& job) const;

 private:
  Batch Commit(Store::Batch batch);

  Store* const store_;
  const OnOutcome on_outcome_;
  Batch committed_ = 0;                 // the last batch that went to the store
  Batch durable_ = 0;                   // the last durable batch
  std::deque<TimePoint> committed_at_;  // of the batches after durable_
  Histogram times_;
  std::deque<std::pair<Batch, JobPtr>> waiting_;  // jobs with held actions, by batch
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTPUT_COMMIT_H_
