// How a job ends, and what its agents are told of it. Pure functions of what they see.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_JOB_END_H_
#define DDPRUN_RENDEZVOUS_MACHINE_JOB_END_H_

#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/outcome.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/job_view.h"

namespace ddprun {

struct JobEnd {
  Outcome outcome = Outcome::kFailed;
  int exit_code = 0;
  std::string reason;
};

// Too few nodes have joined in time. Slurm can start the job again on other nodes, and it is worth
// it where there is a state.
JobEnd EndForLackOfNodes(const JobView& view);
// As the plan has it, which stops the job.
JobEnd EndAsPlanned(const JobView& view, const Plan& plan);
// A host that is left out by now.
struct Exclusion {
  std::string host;
  std::string why;
  int exit_code = 0;                 // of a job that ends for it and has no state to go on from
  std::optional<std::int64_t> step;  // a job could begin with it
};
// Where too few nodes remain without it, for good; nullopt: they are enough.
std::optional<JobEnd> EndWithout(const JobLife& life, const Exclusion& exclusion);

// What an agent is told that has to go, while the job goes on.
Finished FinishedForOne(const JobLife& life, JobEnd end);
// What every agent is told. The causes of the generations that have ended go with it, shortened,
// because one message must hold them all.
Finished FinishedForAll(const JobLife& life, JobEnd end);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_END_H_
