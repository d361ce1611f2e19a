// Why a hang of the job would not be noticed now: for `ddprun status` and for events. One reason is
// an excuse: a node reports why the standstill of a rank does not count, for example because a
// debugger holds its process. Pure functions of the nodes' reports.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_HANGS_NOT_JUDGED_H_
#define DDPRUN_RENDEZVOUS_MACHINE_HANGS_NOT_JUDGED_H_

#include <optional>
#include <string>

#include "rendezvous/core/job_status.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/generation_state.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/nodes/roster.h"

namespace ddprun {

// The excuse that a node reported, with its host and global rank.
JobStatus::NotJudged::Excuse ExcuseOf(const Node& node, const HangExcuse& told);
// "rank 5 on n2 (pid 4242) is held by gdb (pid 77)"
std::string WhoIsExcused(const JobStatus::NotJudged::Excuse& excuse);
// WhoIsExcused() and " since 600.0 s".
std::string Describe(const JobStatus::NotJudged::Excuse& excuse);

// Call it for a job whose workers run. nullopt: a hang would be noticed.
std::optional<JobStatus::NotJudged> WhyNotJudged(const JobLife& life,
                                                 const GenerationState& generation,
                                                 const Roster& roster, TimePoint now);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_HANGS_NOT_JUDGED_H_
