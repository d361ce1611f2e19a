#include "launcher/stacks/seize.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/stacks/memory_map.h"
#include "launcher/stacks/own_stacks.h"
#include "launcher/stacks/process_facts.h"
#include "launcher/stacks/python_frames.h"
#include "worker/contract/own_stacks.h"

namespace ddprun::stacks {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// A program may keep starting threads. After this many scans, new threads are skipped.
constexpr int kMostScans = 8;

constexpr char kNoTime[] = "no time was left for it";
constexpr char kLocked[] =
    "its memory is locked: one of its threads changes its mappings, and may wait for a disk";

struct Registers {
  std::vector<std::uint64_t> in_dwarf_order;
  std::uint64_t stack_pointer = 0;
};

#if defined(__x86_64__)
using KernelRegisters = user_regs_struct;
Registers InDwarfOrder(const KernelRegisters& r) {
  return {{r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12,
           r.r13, r.r14, r.r15, r.rip},
          r.rsp};
}
#elif defined(__aarch64__)
using KernelRegisters = user_regs_struct;
Registers InDwarfOrder(const KernelRegisters& r) {
  Registers registers{{std::begin(r.regs), std::end(r.regs)}, r.sp};
  registers.in_dwarf_order.push_back(r.sp);
  registers.in_dwarf_order.push_back(r.pc);
  return registers;
}
#else
#error "launcher/stacks/seize.cc: the registers of this machine are not known"
#endif

// A seccomp filter may return any of these errors.
absl::Status Refusal(int error, absl::string_view what) {
  if (error == EPERM || error == EACCES || error == ENOSYS) {
    return absl::PermissionDeniedError(what);
  }
  return absl::ErrnoToStatus(error, what);
}

absl::StatusOr<Registers> RegistersOf(pid_t tid) {
  KernelRegisters kernel = {};
  iovec space{&kernel, sizeof(kernel)};
  if (::ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &space) != 0) {
    return absl::ErrnoToStatus(errno, "cannot read its registers");
  }
  if (space.iov_len != sizeof(kernel)) {
    return absl::UnimplementedError("it is a program for another word size");
  }
  return InDwarfOrder(kernel);
}

void AddThread(pid_t tid, CopiedProcess* process) {
  ThreadFacts facts = LookAtThread(process->pid, tid);
  CopiedThread& thread = process->threads.emplace_back();
  thread.tid = tid;
  thread.name = std::move(facts.name);
  thread.state = facts.state;
  thread.call = std::move(facts.call);
  thread.wchan = std::move(facts.wchan);
}

// The held threads of one process. For the tracer thread only.
class HeldProcess {
 public:
  // Parses the list of mappings here, before the hold: a large program's list takes a millisecond.
  HeldProcess(CopiedProcess* process, const SeizeOptions& options)
      : process_(*process), options_(options), maps_(ParseMaps(process->maps)) {}

  ~HeldProcess() {
    for (const Held& held : held_) {
      // Fails for a thread that has ended or did not stop; the end of the tracer thread releases
      // that one.
      if (held.stopped) ::ptrace(PTRACE_DETACH, held.tid, 0, held.signal);
    }
    if (first_stop_.has_value()) process_.held = Clock::now() - *first_stop_;
  }

  // Seizes all threads, also new ones, and waits until they have stopped.
  absl::Status Take() {
    for (int scan = 0; scan < kMostScans; ++scan) {
      const std::size_t known = process_.threads.size();
      for (const pid_t tid : ThreadsOf(process_.pid, options_.threads)) LookAtNew(tid);
      // Stop them only now: LookAtThread must come before the stop, and it takes time.
      const std::size_t all = process_.threads.size();
      for (std::size_t i = known; i < all; ++i) {
        if (absl::Status status = Seize(process_.threads[i]); !status.ok()) return status;
      }
      WaitUntilStopped();
      if (all == known) break;
    }
    const bool any_left =
        std::any_of(held_.begin(), held_.end(), [](const Held& held) { return !held.ended; });
    return any_left ? absl::OkStatus() : absl::NotFoundError("it has ended");
  }

  // `budget`: bytes of stacks that may still be copied. PermissionDenied: no permission to read the
  // memory.
  absl::Status Copy(std::size_t* budget) {
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const Held& held = held_[i];
      CopiedThread& thread = process_.threads[i];
      if (held.ended) {
        thread.copied = absl::NotFoundError("it has ended");
      } else if (!held.stopped) {
        thread.copied = absl::DeadlineExceededError(
            absl::StrCat("it did not stop within ", options_.stop_wait.count(), " ms"));
      } else {
        thread.copied = CopyThread(held.tid, &thread, budget);
        if (absl::IsPermissionDenied(thread.copied)) return thread.copied;
      }
    }
    CopyPythonFrames(maps_, &process_);
    return absl::OkStatus();
  }

 private:
  struct Held {
    pid_t tid;
    bool stopped = false;
    bool ended = false;
    int signal = 0;  // pending; delivered on release
  };

  void LookAtNew(pid_t tid) {
    for (const CopiedThread& thread : process_.threads) {
      if (thread.tid == tid) return;
    }
    AddThread(tid, &process_);
  }

  absl::Status Seize(const CopiedThread& thread) {
    if (::ptrace(PTRACE_SEIZE, thread.tid, 0, 0) == 0) {
      if (!first_stop_.has_value()) first_stop_ = Clock::now();
      ::ptrace(PTRACE_INTERRUPT, thread.tid, 0, 0);
      held_.push_back({thread.tid});
      return absl::OkStatus();
    }
    const int error = errno;
    // A thread that is ending gives EPERM, too.
    const char state = LookAtThread(process_.pid, thread.tid).state;
    const bool ended = error == ESRCH || state == 'Z' || state == 'X' || state == '?';
    if (!ended) return Refusal(error, "cannot trace it");
    held_.push_back({thread.tid, false, true, 0});
    return absl::OkStatus();
  }

  void WaitUntilStopped() {
    const Clock::time_point until = Clock::now() + options_.stop_wait;
    microseconds pause{10};
    while (true) {
      bool all = true;
      for (Held& held : held_) all = (held.stopped || held.ended || HasStopped(&held)) && all;
      if (all || Clock::now() >= until) return;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, microseconds(500));
    }
  }

  // WNOWAIT: the parent must still learn of the end, also if the parent is this process.
  static bool HasStopped(Held* held) {
    siginfo_t info = {};
    if (::waitid(P_PID, static_cast<id_t>(held->tid), &info,
                 WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL | __WNOTHREAD) != 0) {
      held->ended = errno == ECHILD;
      return held->ended;
    }
    if (info.si_pid == 0) return false;
    if (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) {
      held->stopped = true;
      // A ptrace stop has its event in the upper bits, and delivers no signal.
      if (info.si_status >> 8 == 0) held->signal = info.si_status;
    } else {
      held->ended = true;
    }
    return true;
  }

  absl::Status CopyThread(pid_t tid, CopiedThread* thread, std::size_t* budget) {
    absl::StatusOr<Registers> registers = RegistersOf(tid);
    if (!registers.ok()) return registers.status();
    const Mapping* stack = MappingAt(maps_, registers->stack_pointer);
    if (stack == nullptr) {  // mapped after the list was read
      process_.maps = options_.read_maps(process_.pid);
      maps_ = ParseMaps(process_.maps);
      stack = MappingAt(maps_, registers->stack_pointer);
    }
    if (stack == nullptr) return absl::OutOfRangeError("its stack pointer is in no mapping");
    const std::uint64_t from = std::max(
        stack->start, registers->stack_pointer - std::min(registers->stack_pointer, kRedZoneBytes));
    const std::uint64_t whole = stack->end - from;
    const std::size_t size = std::min<std::uint64_t>(whole, options_.stack_bytes);
    if (size > *budget) {
      return absl::ResourceExhaustedError("the limit for copied stacks is reached");
    }
    thread->stack.resize(size);
    iovec here{thread->stack.data(), size};
    iovec there{reinterpret_cast<void*>(from), size};
    const ssize_t copied = ::process_vm_readv(process_.pid, &here, 1, &there, 1, 0);
    if (copied < 0) return Refusal(errno, "cannot read its stack");
    thread->stack.resize(static_cast<std::size_t>(copied));
    *budget -= thread->stack.size();
    thread->stack_start = from;
    // A shorter copy ended at a guard page. Since glibc 2.42, guard pages do not end the mapping,
    // so the stacks of several threads are one mapping.
    thread->stack_is_whole = thread->stack.size() == whole || thread->stack.size() < size;
    thread->registers = std::move(registers->in_dwarf_order);
    return absl::OkStatus();
  }

  CopiedProcess& process_;
  const SeizeOptions& options_;
  std::vector<Mapping> maps_;
  std::vector<Held> held_;  // in the order of process_.threads
  std::optional<Clock::time_point> first_stop_;
};

// Records the facts of a process that can be seen without a hold.
void LookFromOutside(CopiedProcess* process, std::size_t most_threads) {
  process->threads.clear();
  for (const pid_t tid : ThreadsOf(process->pid, most_threads)) AddThread(tid, process);
  for (CopiedThread& thread : process->threads) thread.copied = process->status;
}

absl::Status TracedBy(pid_t tracer) {
  const std::optional<ProcessFacts> facts = LookAtProcess(tracer);
  return absl::FailedPreconditionError(
      absl::StrCat("traced by ", tracer, facts ? absl::StrCat(" (", facts->name, ")") : ""));
}

void CopyOne(CopiedProcess* process, std::size_t* budget, const SeizeOptions& options) {
  std::optional<ProcessFacts> facts = LookAtProcess(process->pid);
  if (!facts.has_value() || facts->state == 'Z' || facts->state == 'X') {
    process->status = absl::NotFoundError(facts ? "it has ended" : "no such process");
    return;
  }
  process->name = facts->name;
  process->stopped = facts->state == 'T';
  process->traced_by = facts->traced_by;
  if (facts->traced_by != 0) {
    process->status = TracedBy(facts->traced_by);
  } else {
    process->maps = options.read_maps(process->pid);
    HeldProcess held(process, options);
    process->status = held.Take();
    if (process->status.ok()) process->status = held.Copy(budget);
  }
  if (process->status.ok()) return;
  if (absl::IsPermissionDenied(process->status)) {
    // A tracer may have attached since the look above.
    facts = LookAtProcess(process->pid);
    if (facts.has_value() && facts->traced_by != 0 && facts->traced_by != ::getpid()) {
      process->traced_by = facts->traced_by;
      process->status = TracedBy(facts->traced_by);
    } else if (facts.has_value()) {
      process->status = absl::PermissionDeniedError(absl::StrCat(
          "ddprun may not trace it: ", ExplainDenied(*facts, LookAtPermission(process->pid))));
    }
  }
  LookFromOutside(process, options.threads);
}

struct Copy {
  CopiedProcess process;
  std::size_t budget = 0;
};

// Shared with the thread that copies one process. That thread may outlive its waiter.
struct CopyState {
  // The process is asked to write its stacks itself. That has its own limits, which exceed
  // SeizeOptions::patience.
  std::atomic<bool> writes_itself{false};
  bool ended = false;  // guarded by LeftBehind
};

// The processes whose threads were left behind.
class LeftBehind {
 public:
  bool Has(pid_t pid) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return pids_.contains(pid);
  }
  void Add(pid_t pid, const CopyState& state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!state.ended) pids_.insert(pid);
  }
  // Called by the thread.
  void End(pid_t pid, CopyState* state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    state->ended = true;
    pids_.erase(pid);
  }

 private:
  std::mutex mutex_;
  std::set<pid_t> pids_;  // guarded by mutex_
};

LeftBehind& Left() {
  static LeftBehind* const left =
      new LeftBehind();  // leaked: its threads may run until the process ends
  return *left;
}

std::packaged_task<Copy()> CopyWork(pid_t pid, std::size_t budget, Clock::time_point deadline,
                                    const SeizeOptions& options,
                                    const std::shared_ptr<CopyState>& state) {
  return std::packaged_task<Copy()>([=] {
    Copy copy;
    copy.process.pid = pid;
    copy.budget = budget;
    CopyOne(&copy.process, &copy.budget, options);
    if (absl::IsPermissionDenied(copy.process.status)) {
      state->writes_itself = true;
      CollectOwnStacks(&copy.process, &copy.budget, deadline);
    }
    Left().End(pid, state.get());
    return copy;
  });
}

CopiedProcess GiveUp(pid_t pid, absl::string_view why, const SeizeOptions& options) {
  CopiedProcess process;
  process.pid = pid;
  process.status = absl::DeadlineExceededError(why);
  LookFromOutside(&process, options.threads);  // does not need mmap_lock
  return process;
}

CopiedProcess CopyOnThread(pid_t pid, std::size_t* budget, Clock::time_point deadline,
                           const SeizeOptions& options) {
  if (Left().Has(pid)) return GiveUp(pid, "its memory is still locked", options);
  const auto state = std::make_shared<CopyState>();
  std::packaged_task<Copy()> work = CopyWork(pid, *budget, deadline, options, state);
  std::future<Copy> result = work.get_future();
  std::thread tracer(std::move(work));
  const auto ready = [&](Clock::time_point until) {
    return result.wait_until(until) == std::future_status::ready;
  };
  const auto patient_until = std::min(Clock::now() + options.patience, deadline);
  if (!ready(patient_until) && !(state->writes_itself && ready(deadline + options.patience))) {
    Left().Add(pid, *state);
    tracer.detach();
    return GiveUp(pid, Clock::now() < deadline ? kLocked : kNoTime, options);
  }
  tracer.join();
  Copy copy = result.get();
  *budget = copy.budget;
  return std::move(copy.process);
}

}  // namespace

std::vector<CopiedProcess> CopyStacks(absl::Span<const pid_t> pids, Clock::time_point deadline,
                                      const SeizeOptions& options) {
  std::vector<CopiedProcess> processes;
  std::size_t budget = options.total_bytes;
  for (const pid_t pid : pids) {
    if (Clock::now() < deadline) {
      processes.push_back(CopyOnThread(pid, &budget, deadline, options));
    } else {
      CopiedProcess& process = processes.emplace_back();
      process.pid = pid;
      process.status = absl::DeadlineExceededError(kNoTime);
    }
  }
  return processes;
}

}  // namespace ddprun::stacks
