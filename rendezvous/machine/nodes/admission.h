// Who can be in a job, and why not. Pure functions of what they see.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_NODES_ADMISSION_H_
#define DDPRUN_RENDEZVOUS_MACHINE_NODES_ADMISSION_H_

#include <cstddef>
#include <optional>
#include <string>

#include "rendezvous/core/messages.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/job_view.h"
#include "rendezvous/machine/nodes/roster.h"

namespace ddprun {

// Why no job could begin with this Join; "" when one could.
std::string WhyMalformed(const Join& join);

// Why an agent that was started with `theirs` cannot be in a job that began with `ours`: the first
// setting that differs, by the name of its flag; "" when it can.
std::string WhyJobDiffers(const JobSpec& ours, const JobSpec& theirs);

// Roles run programs of their own; an agent of an earlier version does not say what it runs.
bool AreComparable(const WorkerProgram& ours, const WorkerProgram& theirs);

// Why an agent that runs `theirs` cannot be in a job in which the node `host` runs `ours`: another
// program in the same role; "" when it can.
std::string WhyProgramDiffers(const WorkerProgram& ours, const std::string& host,
                              const WorkerProgram& theirs);

// The first argument, counted from 1, that two programs of one role are given differently, or only
// one of them is given; nullopt: none, or they are not to be compared.
std::optional<std::size_t> FirstOtherArgument(const WorkerProgram& ours,
                                              const WorkerProgram& theirs);

// The first node that has told of a program in the same role, or nullptr.
const Node* ComparableNode(const Roster& roster, const WorkerProgram& program);

// Why an agent that asks for a rank does not get it: this host has it.
std::string WhyRankIsTaken(NodeRank rank, const std::string& host);

// Why this job does not take in an agent that is not in it; "" when it does.
std::string WhyJoinIsRefused(const JobView& view, int max_agents, const Join& join);

// Why the job does without this host, which it leaves out.
std::string WhyExcluded(const JobLife& life, const std::string& host);

// Whether the job can do without this host and have as many nodes: others wait.
bool IsReplaceable(const Roster& roster, const std::string& host);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_NODES_ADMISSION_H_
