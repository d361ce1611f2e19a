// Which agents a job admits, and the reasons for a refusal. Pure functions.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_NODES_ADMISSION_H_
#define DDPRUN_RENDEZVOUS_MACHINE_NODES_ADMISSION_H_

#include <cstddef>
#include <optional>
#include <string>

#include "rendezvous/core/messages.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/job_view.h"
#include "rendezvous/machine/nodes/roster.h"
#include "rendezvous/machine/step/job_machine_options.h"

namespace ddprun {

// Why no job can accept this Join; "": it is well-formed.
std::string WhyMalformed(const Join& join);
// Why this rendezvous refuses a job with this lease; "": it accepts the job.
std::string WhyLeaseIsRefused(const JobMachineOptions& options, Duration lease);

// Why an agent with the settings `theirs` cannot join a job with the settings `ours`. Names the
// flag of the first setting that differs. "": the agent can join.
std::string WhyJobDiffers(const JobSpec& ours, const JobSpec& theirs);

// True if both programs are known and have the same role. An agent of an earlier version reports no
// program.
bool AreComparable(const WorkerProgram& ours, const WorkerProgram& theirs);

// Why an agent with the program `theirs` cannot join a job whose node `host` runs `ours` in the
// same role; "": the agent can join.
std::string WhyProgramDiffers(const WorkerProgram& ours, const std::string& host,
                              const WorkerProgram& theirs);

// The position, from 1, of the first argument that differs between two programs of one role;
// nullopt: none differs, or the programs are not comparable.
std::optional<std::size_t> FirstOtherArgument(const WorkerProgram& ours,
                                              const WorkerProgram& theirs);

// A node with a known program in the same role, or nullptr.
const Node* ComparableNode(const Roster& roster, const WorkerProgram& program);

// Why an agent does not get the rank that it asks for: `host` has the rank.
std::string WhyRankIsTaken(NodeRank rank, const std::string& host);

// Why this job does not admit a new agent; "": it admits the agent.
std::string WhyJoinIsRefused(const JobView& view, int max_agents, const Join& join);

// Why this host is excluded, or could be. Call it only for an excluded host, or for one that has
// reached a limit of the quarantine.
std::string WhyExcluded(const JobLife& life, const std::string& host);

// True if other hosts have enough free nodes for a group of the same size. A node that waits only
// for its standbys counts as free. Call it after the generation has ended: then its nodes are free,
// except nodes with stuck processes.
bool IsReplaceable(const Roster& roster, const std::string& host);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_NODES_ADMISSION_H_
