// What a new worker process does until it executes its program, and how its parent learns what came
// of it. For posix_process_runner.cc only.
//
// Everything that can touch a disk happens here, in the child: it may take as long as a file server
// takes, and nobody waits for it.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_CHILD_PROCESS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/os/process/process_runner.h"

namespace ddprun {

// All four above 2 and close-on-exec.
struct ChildDescriptors {
  int in;
  int out;
  int err;
  int outcome;  // the write end of SpawnedProcess::outcome_pipe
};

// A request as a process needs it that must not allocate (VforkThreads).
class ChildProgram {
 public:
  ChildProgram(ChildProgram&&) = default;  // a copy's pointers would be those of the original
  // InvalidArgument where argv is empty, or something holds a NUL.
  static absl::StatusOr<ChildProgram> Prepare(const SpawnRequest& request);

  // In a new child of `parent`, made with every signal blocked: becomes the program, which closes
  // the outcome pipe, or writes the reason why not into it and exits. Calls `may_allocate` before
  // the latter.
  [[noreturn]] void Become(const ChildDescriptors& descriptors, pid_t parent,
                           const std::function<void()>& may_allocate) const;

 private:
  // Where it went wrong. Nothing of it is allocated.
  struct Failure {
    enum class Step { kPrepare, kChdir, kFind, kExec } step;
    int error;                          // an errno, except of kFind
    const char* call = "";              // of kPrepare
    const std::string* path = nullptr;  // of kExec
  };

  ChildProgram() = default;
  Failure Execute(const ChildDescriptors& descriptors, pid_t parent) const;
  void ReportFailure(const Failure& failure, int outcome) const;
  absl::Status Explain(const Failure& failure) const;

  SpawnRequest request_;
  std::vector<char*> argv_;  // pointers into request_, as execve takes them
  std::vector<char*> envp_;
  std::vector<std::string> paths_;       // of the program, as ProgramPaths has them
  std::vector<unsigned long> cpu_mask_;  // as sched_setaffinity takes it; empty: the parent's
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_CHILD_PROCESS_H_
