// Ends the process with one clear line when it cannot continue.
//
// For invariants of ddprun, and for calls that fail only if the machine lacks resources at the
// start (epoll_create, eventfd). All other errors are returned as absl::Status.
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
