// Ends the process with one clear line when something fails that the agent cannot do without.
//
// For our own invariants and for calls that only fail when the machine is out of resources at
// start (epoll_create, eventfd). Everything else returns absl::Status.
#ifndef DDPRUN_LAUNCHER_OS_CHECK_H_
#define DDPRUN_LAUNCHER_OS_CHECK_H_

namespace ddprun {

// Prints "ddprun: internal error: WHAT: <errno text>" to stderr and aborts.
[[noreturn]] void DieWithErrno(const char* what);

// Prints "ddprun: internal error: WHAT" to stderr and aborts.
[[noreturn]] void Die(const char* what);

// Returns `result`, or dies when it is -1.
inline int CheckSyscall(int result, const char* what) {
  if (result == -1) DieWithErrno(what);
  return result;
}

inline void Check(bool holds, const char* what) {
  if (!holds) Die(what);
}

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_CHECK_H_
