// What a new worker process does between clone and exec. For posix_process_runner.cc only.
//
// This code runs in the agent's memory, beside the agent's other threads, with any of their locks
// held. So it makes raw system calls and nothing else: no library function, no allocation, no
// destructor; all that it reads and writes is one plain struct.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_CHILD_PROCESS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_CHILD_PROCESS_H_

#include <sys/types.h>

namespace ddprun {

// In the order in which they are done.
enum class ChildStep {
  kSetProcessGroup,
  kSetDeathSignal,
  kRedirect,
  kChangeDirectory,
  kExec,
};

const char* ChildStepName(ChildStep step);

struct ChildPlan {
  // Read by the child.
  const char* path;
  char* const* argv;
  char* const* envp;
  const char* cwd;  // nullptr: stay
  int stdin_fd;     // all three above 2
  int stdout_fd;
  int stderr_fd;
  pid_t expected_parent;
  unsigned max_descriptors;  // where the kernel has no close_range

  // Written by the child when a step fails; `error` is an errno, 0 while all is well.
  ChildStep failed_at;
  int error;
};

// clone's entry function; `plan` is a ChildPlan*. Does not return: it becomes the program or exits.
int ChildMain(void* plan);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_CHILD_PROCESS_H_
