// Exit codes of ddprun that a rendezvous decides; docs/usage.md lists all.
#ifndef DDPRUN_RENDEZVOUS_CORE_EXIT_CODES_H_
#define DDPRUN_RENDEZVOUS_CORE_EXIT_CODES_H_

namespace ddprun {

inline constexpr int kExitUnavailable = 69;  // EX_UNAVAILABLE: no rendezvous, or too few nodes
inline constexpr int kExitPreempted = 75;    // EX_TEMPFAIL: stopped on purpose, the state is saved
inline constexpr int kExitRefused = 77;      // EX_NOPERM
inline constexpr int kExitTerminated = 143;  // as by SIGTERM: stopped on purpose, nothing is saved

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_EXIT_CODES_H_
