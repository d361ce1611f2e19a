// The code of a new worker process until it executes its program. Also reports the outcome to the
// parent. For posix_process_runner.cc only.
//
// All disk access happens here, in the child. The child may wait for a file server; no other
// process waits for the child.
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

// All four numbers are above 2, and all are close-on-exec.
struct ChildDescriptors {
  int in;
  int out;
  int err;
  int outcome;  // the write end of SpawnedProcess::outcome_pipe
};

// A spawn request, prepared for a child that must not allocate (VforkThreads).
class ChildProgram {
 public:
  ChildProgram(ChildProgram&&) = default;  // a copy would point into the original
  // InvalidArgument: argv is empty, or a string contains a NUL.
  static absl::StatusOr<ChildProgram> Prepare(const SpawnRequest& request);

  // Call it in a new child of `parent`, with every signal blocked. Executes the program, which
  // closes the outcome pipe. On failure calls `may_allocate`, writes the reason into the pipe and
  // exits.
  [[noreturn]] void Become(const ChildDescriptors& descriptors, pid_t parent,
                           const std::function<void()>& may_allocate) const;

 private:
  // The step that failed. Allocates nothing.
  struct Failure {
    enum class Step { kPrepare, kChdir, kFind, kExec } step;
    int error;                          // an errno, except for kFind
    const char* call = "";              // for kPrepare
    const std::string* path = nullptr;  // for kExec
  };

  ChildProgram() = default;
  Failure Execute(const ChildDescriptors& descriptors, pid_t parent) const;
  void ReportFailure(const Failure& failure, int outcome) const;
  absl::Status Explain(const Failure& failure) const;

  SpawnRequest request_;
  std::vector<char*> argv_;  // pointers into request_, for execve
  std::vector<char*> envp_;
  std::vector<std::string> paths_;       // candidates for the program, from ProgramPaths
  std::vector<unsigned long> cpu_mask_;  // for sched_setaffinity; empty: the parent's
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_CHILD_PROCESS_H_
