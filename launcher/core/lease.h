// The arithmetic of leases. Pure. docs/internals/leases.md tells the whole of it.
//
// A member of a generation that the rendezvous has not heard for the length of the lease is lost,
// and its ranks are given to others. Its agent has to end its workers before that, though it cannot
// ask. It knows one thing for certain: what it sent at time S was heard, if at all, at S or later.
// So the rendezvous keeps its ranks until S + lease at least, for the newest S that was answered,
// and the agent kills at
//
//     fence time = S + lease − margin,   margin = lease / 6   (0.5 s of 3 s)
//
// The time at which the answer arrived does not matter: the answer may have been on its way for
// long. What the margin must hold:
//
//   clock rate    An agent whose clock is slow by the factor 1 − ε sees the time come late, by
//                 about ε × 5/6 × lease. Quartz: ε ≤ 10⁻⁴, and 0.25 ms of 3 s. The rule holds
//                 to ε = 1/6 − (the rest, below) / lease.
//   the loop      until the agent's timer is served, and the SIGKILLs are sent: milliseconds. If
//                 it takes longer (the agent is stopped, or starved) the guardian kills in the
//                 agent's place, BackstopDelay after the fence time: margin / 5 (100 ms of 3 s).
//   the end       a process with a pending SIGKILL runs no instruction of its own any more.
//
// So even where the guardian has to do it, 4/5 of the margin are left: 0.4 s of 3 s.
#ifndef DDPRUN_LAUNCHER_CORE_LEASE_H_
#define DDPRUN_LAUNCHER_CORE_LEASE_H_

#include "rendezvous/core/types.h"

namespace ddprun {

// How long before the end of its lease an agent has to have no worker any more.
constexpr Duration FenceMargin(Duration lease) { return lease / 6; }

// When an agent whose newest answered message was sent at `last_contact` kills its workers.
constexpr TimePoint FenceTime(TimePoint last_contact, Duration lease) {
  return last_contact + lease - FenceMargin(lease);
}

// How long after the fence time the guardian does, where the agent did not.
constexpr Duration BackstopDelay(Duration lease) { return FenceMargin(lease) / 5; }

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_LEASE_H_
