// Which of several failures of one generation was the cause of the others.
#ifndef DDPRUN_RENDEZVOUS_CORE_ROOT_CAUSE_H_
#define DDPRUN_RENDEZVOUS_CORE_ROOT_CAUSE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/core/messages.h"

namespace ddprun {

// ERROR kind that agents give to a worker that could not be started at all.
inline constexpr char kErrorExec[] = "exec";

// Index of the root cause in `failures`, which stand in the order in which the rendezvous saw them
// and must not be empty. A worker that says its collective failed lost a peer: it is a victim as
// long as there is any failure of another kind. Clocks of nodes are not compared.
std::size_t ChooseRootCause(const std::vector<WorkerFailure>& failures);

// True for failures that a restart cannot cure: the command cannot be executed.
bool IsPermanent(const WorkerFailure& failure);

// "rank 3 (local rank 1, pid 4242) on n2: SIGKILL at step 120".
std::string Describe(const WorkerFailure& failure);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_ROOT_CAUSE_H_
