// The arithmetic of leases. Pure. docs/internals/leases.md explains leases.
//
// If the rendezvous receives nothing from a member (a node of the generation) for the length of the
// lease, the member is lost, and other nodes may get its ranks. (After a takeover by another
// rendezvous this is later, never earlier.) The member's agent must kill its workers before that,
// without asking the rendezvous.
//
// Let S be the time at which the agent sent its newest answered message. The rendezvous received it
// at S or later, so it keeps the ranks at least until S + lease. With one rendezvous, the start of
// a refused attempt to connect counts as S, too (leases.md says why). The agent kills at
//
//     fence time = S + lease − margin,   margin = lease / 6   (0.5 s of 3 s)
//
// The arrival time of the answer plays no part, because the answer may have been delayed. The
// margin must cover three delays:
//
//   clock rate    If the agent's clock is slow by the factor 1 − ε, the agent kills late, by about
//                 ε × 5/6 × lease. Quartz has ε ≤ 10⁻⁴: 0.25 ms of 3 s. The margin covers all
//                 three delays if ε is below about 1/6 − (the other two delays) / lease.
//   the loop      The agent needs milliseconds to serve its timer and to send the SIGKILLs. If it
//                 needs longer (it is stopped, or starved), the guardian kills in its place,
//                 BackstopDelay after the fence time: margin / 5 (100 ms of 3 s).
//   the end       A process with a pending SIGKILL runs no instruction of its own any more.
//
// So 4/5 of the margin are left even if the guardian must kill: 0.4 s of 3 s.
#ifndef DDPRUN_LAUNCHER_CORE_LEASE_H_
#define DDPRUN_LAUNCHER_CORE_LEASE_H_

#include "rendezvous/core/types.h"

namespace ddprun {

// The agent kills its workers this long before the end of its lease.
constexpr Duration FenceMargin(Duration lease) { return lease / 6; }

// When the agent kills its workers. `last_contact`: S above.
constexpr TimePoint FenceTime(TimePoint last_contact, Duration lease) {
  return last_contact + lease - FenceMargin(lease);
}

// The guardian kills the workers this long after the fence time, if the agent has not.
constexpr Duration BackstopDelay(Duration lease) { return FenceMargin(lease) / 5; }

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_LEASE_H_
