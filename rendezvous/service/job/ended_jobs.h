// EndedJobs: the jobs that are over, and how long they stay known: for `ddprun status`, and for
// agents that were cut off and come back to hear how it ended.
//
// Owned by JobLoop; from within it only, by one thread at a time.
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
  // A job is known so long, while there are so many of them, with so many agents in all.
  struct Limits {
    Duration time = std::chrono::hours(24);
    std::size_t jobs = 256;
    std::size_t agents = 20'000;
  };

  explicit EndedJobs(const Limits& limits) : limits_(limits) {}

  void Add(const JobPtr& job, TimePoint now);

  // Takes out the oldest if it is over a limit; nullptr: none is.
  JobPtr TakeSurplus(TimePoint now);
  // When the next one is.
  std::optional<TimePoint> NextDeadline() const;

  // Agents that have yet to hear that their job is over, as far as is known.
  std::size_t AwaitedAgents() const;

 private:
  struct Entry {
    TimePoint at;
    std::weak_ptr<ServedJob> job;  // expires when its name is used again
    std::size_t agents;
  };

  const Limits limits_;
  std::deque<Entry> entries_;  // the oldest first
  std::size_t agents_ = 0;     // of entries_
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_ENDED_JOBS_H_
