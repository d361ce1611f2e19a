// EndedJobs: the finished jobs, and how long the rendezvous remembers them: for `ddprun status`,
// and for agents that lost contact and come back for the outcome.
//
// Owned by JobLoop, and called only from within it, by one thread at a time.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_ENDED_JOBS_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_ENDED_JOBS_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "rendezvous/core/types.h"
#include "rendezvous/service/job/served_job.h"

namespace ddprun {

class EndedJobs {
 public:
  // A finished job is remembered for `time`. The time begins with the job's end, and again with
  // each start of the rendezvous. Older jobs are forgotten early if there are more than `jobs`
  // finished jobs, or more than `agents` agents in them.
  struct Limits {
    Duration time = std::chrono::hours(24);
    std::size_t jobs = 256;
    std::size_t agents = 20'000;
  };

  explicit EndedJobs(const Limits& limits) : limits_(limits) {}

  void Add(const JobPtr& job, TimePoint now);

  // Removes and returns the oldest job if a limit is exceeded; else nullptr.
  JobPtr TakeSurplus(TimePoint now);
  // When the next job exceeds `time`.
  std::optional<TimePoint> NextDeadline() const;

  // Number of agents that do not know yet that their job has ended, as far as known.
  std::size_t AwaitedAgents() const;

 private:
  struct Entry {
    TimePoint at;
    std::weak_ptr<ServedJob> job;  // expires some time after the job's name is used again
    std::size_t agents;
  };

  const Limits limits_;
  std::deque<Entry> entries_;  // oldest first
  std::size_t agents_ = 0;     // of entries_
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_ENDED_JOBS_H_
