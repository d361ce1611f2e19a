// JobNumbers: the random-looking numbers of a JobMachine. They depend only on the seed of the
// rendezvous, the job, its agents and the time: equal events at equal times give equal numbers.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_NUMBERS_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_NUMBERS_H_

#include <cstdint>
#include <string>

#include "rendezvous/core/types.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/nodes/roster.h"

namespace ddprun {

class JobNumbers {
 public:
  // `seed`: of the rendezvous. `job` and `life` outlive this object.
  JobNumbers(std::uint64_t seed, const std::string* job, const JobLife* life)
      : seed_(seed), job_(job), life_(life) {}

  // Seeds the jitter of restarts. Depends on the job and its requeue number, not on the rendezvous.
  std::uint64_t OfJob() const;
  // An id for a request or a look, different from `last`.
  std::uint64_t Draw(std::uint64_t last, TimePoint now) const;
  // Depends also on the random ids of the agents.
  RunId DrawRunId(const Roster& roster) const;

 private:
  const std::uint64_t seed_;
  const std::string* const job_;
  const JobLife* const life_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_NUMBERS_H_
