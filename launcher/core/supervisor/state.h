// The states of a Supervisor and their allowed transitions.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_STATE_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_STATE_H_

namespace ddprun {

enum class SupervisorState {
  kJoining,
  kSpawning,
  kRunning,
  kStopping,
  kLeaving,
  kFenced,  // the lease is over; the workers got SIGKILL
  kDone,
  kFailed
};
const char* ToString(SupervisorState state);

bool MayFollow(SupervisorState state, SupervisorState next);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_STATE_H_
