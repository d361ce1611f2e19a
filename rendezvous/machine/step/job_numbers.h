// JobNumbers: the numbers that a JobMachine draws. They look random, and follow from the seed of
// the rendezvous, the job and the time alone: the same events at the same times give the same ones.
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
  // `seed` is the rendezvous'. The job's name and its life outlive it.
  JobNumbers(std::uint64_t seed, const std::string* job, const JobLife* life)
      : seed_(seed), job_(job), life_(life) {}

  // Of the job and its requeue number, whichever rendezvous it has: for the jitter of its restarts.
  std::uint64_t OfJob() const;
  // For a request; another one than `last`.
  std::uint64_t Draw(std::uint64_t last, TimePoint now) const;
  // Also of what these agents have drawn for themselves.
  RunId DrawRunId(const Roster& roster) const;

 private:
  const std::uint64_t seed_;
  const std::string* const job_;
  const JobLife* const life_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_NUMBERS_H_
