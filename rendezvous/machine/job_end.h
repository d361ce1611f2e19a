// How a job ends, and the message about it to its agents. Pure functions.
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

// The end if too few nodes join in time. Under Slurm, with a durable state, it is kPreempted: Slurm
// can start the job again on other nodes.
JobEnd EndForLackOfNodes(const JobView& view);
// The end of a job that `plan` stops.
JobEnd EndAsPlanned(const JobView& view, const Plan& plan);
// A host that was just excluded.
struct Exclusion {
  std::string host;
  std::string why;
  int exit_code = 0;                 // the job's exit code, if the job has to end without a durable
                                     // state
  std::optional<std::int64_t> step;  // the newest durable state
};
// The job's end, if too few nodes remain without the host and no more can come; nullopt: the job
// can continue.
std::optional<JobEnd> EndWithout(const JobLife& life, const Exclusion& exclusion);

// The message to one agent that must leave while the job goes on.
Finished FinishedForOne(const JobLife& life, JobEnd end);
// The message to every agent. It includes the root causes of LifeRecord::causes, shortened to fit
// into one message.
Finished FinishedForAll(const JobLife& life, JobEnd end);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_END_H_
