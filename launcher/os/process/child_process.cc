#include "launcher/os/process/child_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "launcher/os/process/close_descriptors.h"
#include "launcher/os/process/program_path.h"

namespace ddprun {
namespace {

constexpr int kSignals = 64;
constexpr int kExitCode = 127;  // not seen: the outcome pipe has the reason

// Uses system calls, because glibc reserves two signals for itself.
void ResetSignals() {
  // All zero: SIG_DFL without flags. Larger than the kernel's sigaction on any architecture.
  static constexpr std::uint64_t kDefaultAction[8] = {};
  static constexpr std::uint64_t kNoSignals = 0;
  for (int signo = 1; signo <= kSignals; ++signo) {
    // Fails for SIGKILL and SIGSTOP, which always have their default action.
    ::syscall(SYS_rt_sigaction, signo, kDefaultAction, nullptr, sizeof(kNoSignals));
  }
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kNoSignals, nullptr, sizeof(kNoSignals));
}

// dup2 clears close-on-exec, because the two descriptors differ.
bool Redirect(const ChildDescriptors& descriptors) {
  return ::dup2(descriptors.in, 0) == 0 && ::dup2(descriptors.out, 1) == 1 &&
         ::dup2(descriptors.err, 2) == 2;
}

absl::Status CheckNoNul(const std::vector<std::string>& strings, const char* what) {
  for (const std::string& string : strings) {
    if (string.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(what, " contains a NUL byte"));
    }
  }
  return absl::OkStatus();
}

// execve's parameter type is historical: it writes to none of the strings.
std::vector<char*> ToPointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<unsigned long> ToMask(const std::vector<int>& cpus) {
  constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  std::vector<unsigned long> mask;
  for (const int number : cpus) {
    const auto cpu = static_cast<std::size_t>(number);
    mask.resize(std::max(mask.size(), cpu / kBits + 1));
    mask[cpu / kBits] |= 1UL << cpu % kBits;
  }
  return mask;
}

// Uses the system call, because glibc's function takes a type of fixed size.
bool SetAffinity(const std::vector<unsigned long>& mask) {
  return mask.empty() ||
         ::syscall(SYS_sched_setaffinity, 0, mask.size() * sizeof(mask[0]), mask.data()) == 0;
}

}  // namespace

absl::StatusOr<ChildProgram> ChildProgram::Prepare(const SpawnRequest& request) {
  if (request.argv.empty()) return absl::InvalidArgumentError("there is no command to run");
  if (absl::Status status = CheckNoNul(request.argv, "an argument"); !status.ok()) return status;
  if (absl::Status status = CheckNoNul(request.env, "an environment variable"); !status.ok()) {
    return status;
  }
  ChildProgram program;
  program.request_ = request;
  program.argv_ = ToPointers(program.request_.argv);
  program.envp_ = ToPointers(program.request_.env);
  program.cpu_mask_ = ToMask(request.cpus);
  program.paths_ = ProgramPaths(request.argv[0], request.env);
  return program;
}

// Returns only if the program does not run.
ChildProgram::Failure ChildProgram::Execute(const ChildDescriptors& descriptors,
                                            pid_t parent) const {
  const auto cannot = [](const char* call, int error) {
    return Failure{Failure::Step::kPrepare, error, call};
  };
  if (::setpgid(0, 0) != 0) return cannot("setpgid", errno);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
    return cannot("prctl(PR_SET_PDEATHSIG)", errno);
  }
  // The parent may have died before the line above: then the kernel would not kill this child.
  if (::getppid() != parent) return cannot("prctl(PR_SET_PDEATHSIG)", ESRCH);
  if (!Redirect(descriptors)) return cannot("dup2", errno);
  if (!SetAffinity(cpu_mask_)) return cannot("sched_setaffinity", errno);
  CloseDescriptorsBut({descriptors.outcome});
  ResetSignals();  // before any call that may hang, so that a fatal signal ends this child

  if (!request_.cwd.empty() && ::chdir(request_.cwd.c_str()) != 0) {
    return {Failure::Step::kChdir, errno};
  }
  const bool is_path = paths_.size() == 1 && paths_[0] == request_.argv[0];
  for (const std::string& path : paths_) {
    if (!is_path && !IsProgram(path)) continue;
    ::execve(path.c_str(), argv_.data(), envp_.data());
    return {Failure::Step::kExec, errno, "", &path};
  }
  return {Failure::Step::kFind, ENOENT};
}

absl::Status ChildProgram::Explain(const Failure& failure) const {
  switch (failure.step) {
    case Failure::Step::kPrepare:
      break;
    case Failure::Step::kChdir:
      return ExplainChdirFailure(request_.cwd, failure.error);
    case Failure::Step::kFind: {
      const absl::Status why = FindProgram(request_.argv[0], request_.env).status();
      if (!why.ok()) return why;
      return absl::NotFoundError(absl::StrCat(request_.argv[0], ": command not found"));
    }
    case Failure::Step::kExec:
      return ExplainExecFailure(*failure.path, failure.error);
  }
  return absl::ErrnoToStatus(failure.error,
                             absl::StrCat("cannot prepare ", request_.argv[0], ": ", failure.call));
}

void ChildProgram::Become(const ChildDescriptors& descriptors, pid_t parent,
                          const std::function<void()>& may_allocate) const {
  const Failure failure = Execute(descriptors, parent);
  may_allocate();
  ReportFailure(failure, descriptors.outcome);  // frees all that it allocates in the parent's heap
  ::_exit(kExitCode);
}

// One write, small enough for an empty pipe: the reader never sees a part of it. The reader may
// kill this child right after the write, so the memory that Explain() has allocated is freed
// before.
void ChildProgram::ReportFailure(const Failure& failure, int outcome) const {
  char report[PIPE_BUF];
  std::size_t size = 1;
  {
    const absl::Status status = Explain(failure);
    report[0] = static_cast<char>(status.raw_code());
    size += status.message().copy(report + 1, sizeof(report) - 1);
  }
  [[maybe_unused]] const ssize_t written = ::write(outcome, report, size);
}

std::optional<absl::Status> SpawnOutcome(int outcome_pipe) {
  char report[PIPE_BUF];
  ssize_t size;
  do {
    size = ::read(outcome_pipe, report, sizeof(report));
  } while (size < 0 && errno == EINTR);
  if (size == 0) return absl::OkStatus();
  if (size < 0 && errno == EAGAIN) return std::nullopt;
  if (size < 0) return absl::ErrnoToStatus(errno, "cannot read how a worker's start went");
  return absl::Status(static_cast<absl::StatusCode>(report[0]),
                      absl::string_view(report + 1, static_cast<std::size_t>(size) - 1));
}

}  // namespace ddprun
