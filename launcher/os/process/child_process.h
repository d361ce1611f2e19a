// What a new worker process does between fork and exec, and how its parent learns what came of it.
// For posix_process_runner.cc only.
//
// Everything that can touch a disk happens here, in the child: it may take as long as a file server
// takes, and nobody waits for it.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_CHILD_PROCESS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include "launcher/os/process/process_runner.h"

namespace ddprun {

// All four above 2 and close-on-exec.
struct ChildDescriptors {
  int in;
  int out;
  int err;
  int outcome;  // the write end of SpawnedProcess::outcome_pipe
};

// In a fresh fork of `parent`, made with every signal blocked: becomes the program, which closes
// the outcome pipe, or writes the reason why not into it and exits. `argv` and `envp` are those of
// the request, as execve takes them.
[[noreturn]] void BecomeProgram(const SpawnRequest& request, char* const* argv, char* const* envp,
                                const ChildDescriptors& descriptors, pid_t parent);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_CHILD_PROCESS_H_
