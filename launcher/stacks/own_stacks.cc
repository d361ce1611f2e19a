#include "launcher/stacks/own_stacks.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "launcher/stacks/memory_map.h"
#include "launcher/stacks/process_facts.h"
#include "worker/contract/own_stacks.h"
#include "worker/contract/unique_fd.h"

namespace ddprun::stacks {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr std::size_t kMostDescriptors = std::size_t{1} << 16;
constexpr std::size_t kMostDumpBytes = std::size_t{1} << 20;

// Polls `done` with growing pauses; returns whether it became true before `until`.
bool WaitFor(Clock::time_point until, const std::function<bool()>& done) {
  for (microseconds pause{20};; pause = std::min(pause * 2, microseconds(2000))) {
    if (done()) return true;
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(pause);
  }
}

// The memfd of a process that writes its stacks.
struct StacksFile {
  UniqueFd fd;
  bool python = false;
};

StacksFile FindFile(pid_t pid) {
  StacksFile file;
  const std::string folder = absl::StrCat("/proc/", pid, "/fd/");
  DIR* const entries = ::opendir(folder.c_str());
  if (entries == nullptr) return file;
  for (std::size_t i = 0; i < kMostDescriptors && !file.fd.valid(); ++i) {
    const dirent* const entry = ::readdir(entries);
    if (entry == nullptr) break;
    const std::string path = folder + entry->d_name;
    const std::string target = ReadLink(path);
    file.python = target == absl::StrCat("/memfd:", kPythonStacksFile, " (deleted)");
    if (file.python || target == absl::StrCat("/memfd:", kStacksFile, " (deleted)")) {
      file.fd.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    }
  }
  ::closedir(entries);
  return file;
}

bool LockFile(int file, Clock::time_point until) {
  return WaitFor(until, [file] { return ::flock(file, LOCK_EX | LOCK_NB) == 0; });
}

bool Has(std::uint64_t signals) { return (signals >> (kStackSignal - 1) & 1) != 0; }

// Why the thread would not handle the signal now; empty: it would.
std::string WhyNot(const ThreadSignals& signals) {
  if (Has(signals.blocked)) return "it blocks the signal on which it would write its stack";
  if (Has(signals.pending)) return "it has not answered an earlier request for its stack";
  return "";
}

// ---- registers and stacks ----

class NativeReader {
 public:
  NativeReader(int file, CopiedProcess* process, std::size_t* budget)
      : file_(file), process_(*process), budget_(*budget), maps_(ParseMaps(process->maps)) {}

  // True: at least one stack was written.
  bool Read(Clock::time_point deadline, const OwnStacksLimits& limits) {
    bool any = false;
    absl::Span<CopiedThread> threads(process_.threads);
    while (!threads.empty()) {
      const auto batch = threads.first(std::min(threads.size(), kStackSlots));
      threads.remove_prefix(batch.size());
      any = ReadBatch(batch, deadline, limits) || any;
      // The written data counts as memory of the process's cgroup.
      [[maybe_unused]] const int emptied = ::ftruncate(file_, 0);
    }
    return any;
  }

 private:
  bool ReadBatch(absl::Span<CopiedThread> threads, Clock::time_point deadline,
                 const OwnStacksLimits& limits) {
    // A number that no earlier reader used.
    const std::uint64_t first =
        static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) / kStackSlots *
        kStackSlots;
    std::vector<std::uint64_t> requests(threads.size(), 0);  // 0: none was sent
    for (std::size_t i = 0; i < threads.size(); ++i) {
      threads[i].copied = Ask(threads[i].tid, first + i);
      if (threads[i].copied.ok()) requests[i] = first + i;
    }
    const auto missing = [&](std::size_t i) {
      return requests[i] != 0 && RequestIn(i) != requests[i];
    };
    const Clock::time_point start = Clock::now();
    WaitFor(std::min(deadline, start + limits.answer_wait), [&] {
      const bool only_disk_wait = Clock::now() - start > limits.disk_wait;
      for (std::size_t i = 0; i < threads.size(); ++i) {
        if (!missing(i)) continue;
        if (!only_disk_wait || LookAtThread(process_.pid, threads[i].tid).state != 'D')
          return false;
      }
      return true;
    });
    bool any = false;
    for (std::size_t i = 0; i < threads.size(); ++i) {
      if (requests[i] != 0) threads[i].copied = Take(i, requests[i], &threads[i]);
      any = any || threads[i].copied.ok();
    }
    return any;
  }

  absl::Status Ask(pid_t tid, std::uint64_t request) const {
    const std::optional<ThreadSignals> signals = LookAtSignals(process_.pid, tid);
    if (!signals.has_value()) return absl::NotFoundError("it has ended");
    if (const std::string why = WhyNot(*signals); !why.empty()) {
      return absl::FailedPreconditionError(why);
    }
    siginfo_t info = {};
    info.si_signo = kStackSignal;
    info.si_code = SI_QUEUE;
    info.si_pid = ::getpid();
    info.si_uid = ::getuid();
    info.si_value.sival_ptr = reinterpret_cast<void*>(request);
    if (::syscall(SYS_rt_tgsigqueueinfo, process_.pid, tid, kStackSignal, &info) == 0) {
      return absl::OkStatus();
    }
    if (errno == ESRCH) return absl::NotFoundError("it has ended");
    return absl::UnavailableError(absl::StrCat("cannot send it a signal: ", std::strerror(errno)));
  }

  bool ReadAt(std::size_t at, void* to, std::size_t size) const {
    return ::pread(file_, to, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
  }

  std::uint64_t RequestIn(std::size_t slot) const {
    std::uint64_t request = 0;
    return ReadAt(slot * kStackSlotBytes, &request, sizeof(request)) ? request : 0;
  }

  absl::Status Take(std::size_t slot, std::uint64_t request, CopiedThread* thread) {
    const std::size_t at = slot * kStackSlotBytes;
    StackRecord record;
    if (!ReadAt(at, &record, sizeof(record)) || record.request != request) {
      return absl::DeadlineExceededError("it has not written its stack in time");
    }
    if (record.register_count == 0 || record.register_count > StackRecord::kMostRegisters ||
        record.stack_bytes > kStackCopyBytes) {
      return absl::DataLossError("it wrote an invalid record");
    }
    const std::uint64_t pointer = record.stack_start + kRedZoneBytes;
    const Mapping* stack = MappingAt(maps_, pointer);
    if (stack == nullptr) {  // mapped after the list was read
      maps_ = ParseMaps(process_.maps = ReadMaps(process_.pid));
      stack = MappingAt(maps_, pointer);
    }
    if (stack == nullptr) return absl::OutOfRangeError("its stack pointer is in no mapping");
    // The process copies up to kStackCopyBytes; bytes beyond the end of its stack are dropped.
    const std::uint64_t whole = stack->end - record.stack_start;
    const std::size_t size = std::min(record.stack_bytes, whole);
    if (size > budget_) {
      return absl::ResourceExhaustedError("the limit for copied stacks is reached");
    }
    thread->stack.resize(size);
    if (!ReadAt(at + kStackRecordBytes, thread->stack.data(), size) || RequestIn(slot) != request) {
      thread->stack.clear();
      return absl::DataLossError("its record was overwritten while it was read");
    }
    budget_ -= size;
    thread->stack_start = record.stack_start;
    // If the process copied fewer bytes than the limit, its copy ended at a guard page (seize.cc).
    thread->stack_is_whole = size == whole || record.stack_bytes < kStackCopyBytes;
    thread->registers.assign(record.registers, record.registers + record.register_count);
    return absl::OkStatus();
  }

  const int file_;
  CopiedProcess& process_;
  std::size_t& budget_;
  std::vector<Mapping> maps_;
};

// ---- Python ----

std::string ReadAll(int file) {
  struct stat info;
  if (::fstat(file, &info) != 0) return "";
  std::string text(std::min(static_cast<std::size_t>(info.st_size), kMostDumpBytes), '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

bool ReadPython(int file, CopiedProcess* process, Clock::time_point deadline,
                const OwnStacksLimits& limits) {
  const pid_t pid = process->pid;
  const std::optional<ThreadSignals> before = LookAtSignals(pid, pid);
  if (!before.has_value() || !WhyNot(*before).empty() || ::ftruncate(file, 0) != 0 ||
      ::syscall(SYS_tgkill, pid, pid, kStackSignal) != 0) {
    return false;
  }
  // While the handler runs, the thread blocks its signal.
  const bool written = WaitFor(std::min(deadline, Clock::now() + limits.answer_wait), [&] {
    struct stat info;
    const std::optional<ThreadSignals> now = LookAtSignals(pid, pid);
    return !now.has_value() ||
           (::fstat(file, &info) == 0 && info.st_size > 0 && !Has(now->blocked));
  });
  const std::string text = ReadAll(file);
  [[maybe_unused]] const int emptied = ::ftruncate(file, 0);
  PythonDump dump = ParsePythonDump(text);
  if (!written || dump.current.empty()) return false;
  process->threads.front().python_frames = std::move(dump.current);
  for (std::vector<PythonFrame>& frames : dump.others) {
    CopiedThread& thread = process->threads.emplace_back();
    thread.copied = process->status;
    thread.python_frames = std::move(frames);
  }
  return true;
}

// `File "PATH", line 5 in NAME`. The path may contain anything.
std::optional<StackFrame> ParsePythonFrame(std::string_view line) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = " in ";
  const std::size_t path_end = line.rfind(kLine);
  if (!line.starts_with(kFile) || path_end == std::string_view::npos || path_end < kFile.size()) {
    return std::nullopt;
  }
  StackFrame frame;
  frame.file = line.substr(kFile.size(), path_end - kFile.size());
  line.remove_prefix(path_end + kLine.size());
  const std::size_t number_end = line.find(kIn);
  if (number_end == std::string_view::npos) return std::nullopt;
  // "???": unknown.
  if (!absl::SimpleAtoi(absl::string_view(line.data(), number_end), &frame.line)) frame.line = 0;
  frame.function = line.substr(number_end + kIn.size());
  frame.image = "python";
  if (frame.file.empty() || frame.function.empty()) return std::nullopt;
  return frame;
}

}  // namespace

PythonDump ParsePythonDump(std::string_view text) {
  PythonDump dump;
  std::vector<PythonFrame>* frames = nullptr;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("Current thread ")) {
      frames = &dump.current;
    } else if (line.starts_with("Thread ")) {
      frames = &dump.others.emplace_back();
    } else if (std::optional<StackFrame> frame = ParsePythonFrame(line); frame && frames) {
      frames->push_back({*std::move(frame), false});
    }
  }
  std::erase_if(dump.others, [](const auto& thread) { return thread.empty(); });
  return dump;
}

void CollectOwnStacks(CopiedProcess* process, std::size_t* budget, Clock::time_point deadline,
                      const OwnStacksLimits& limits) {
  const std::optional<ThreadSignals> signals = LookAtSignals(process->pid, process->pid);
  if (process->stopped || process->threads.empty() || !signals || !Has(signals->caught)) return;
  const StacksFile file = FindFile(process->pid);
  if (!file.fd.valid() ||
      !LockFile(file.fd.get(), std::min(deadline, Clock::now() + limits.reader_wait))) {
    return;
  }
  if (!(file.python ? ReadPython(file.fd.get(), process, deadline, limits)
                    : NativeReader(file.fd.get(), process, budget).Read(deadline, limits))) {
    for (CopiedThread& thread : process->threads) thread.copied = process->status;
    return;
  }
  process->not_held = absl::StrCat(
      process->status.message(),
      file.python ? ". Its Python frames are from faulthandler; native frames are missing"
                  : ". Its threads have written their stacks themselves");
  process->status = absl::OkStatus();
}

}  // namespace ddprun::stacks
