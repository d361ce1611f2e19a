#include "launcher/agent/process_facts.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "launcher/agent/rank_processes.h"
#include "launcher/os/process/process_id.h"
#include "launcher/stacks/process_facts.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostProcesses = 64;  // of a rank

// The number of the line "NAME: 123" in `text`.
std::int64_t Number(const std::string& text, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    std::int64_t value = 0;
    const absl::string_view rest = line.substr(name.size());
    if (absl::SimpleAtoi(rest, &value)) return value;
  }
  return 0;
}

// User and system time of all threads. The fields of stat are in proc(5).
Duration CpuTime(const std::string& stat) {
  // The program's name is in parentheses and may contain any character.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 2 > stat.size()) return {};
  const std::vector<std::string> words = absl::StrSplit(stat.substr(name_end + 2), ' ');
  constexpr std::size_t kUserTime = 11;
  constexpr std::size_t kSystemTime = 12;
  std::int64_t user = 0;
  std::int64_t system = 0;
  if (words.size() <= kSystemTime || !absl::SimpleAtoi(words[kUserTime], &user) ||
      !absl::SimpleAtoi(words[kSystemTime], &system)) {
    return {};
  }
  static const long ticks = ::sysconf(_SC_CLK_TCK);
  return std::chrono::milliseconds((user + system) * 1000 / ticks);
}

ProcessState StateOf(char state) {
  switch (state) {
    case 'T':
      return ProcessState::kStopped;
    case 't':
      return ProcessState::kTraced;
    case 'D':
      return ProcessState::kDiskWait;
    default:
      return ProcessState::kRunnable;
  }
}

// True for a thread of this agent. Such a thread traces to copy stacks, and is no debugger. It may
// still trace a process after the copying was given up (launcher/stacks/seize.h).
bool IsOwnThread(std::int64_t tid) {
  return ::access(absl::StrCat("/proc/self/task/", tid).c_str(), F_OK) == 0;
}

// How often a thread was switched out, by the text of its status.
std::uint64_t SwitchesOf(const std::string& status) {
  return static_cast<std::uint64_t>(Number(status, "voluntary_ctxt_switches:") +
                                    Number(status, "nonvoluntary_ctxt_switches:"));
}

std::string WaitOf(const stacks::ThreadFacts& thread) {
  return thread.call.empty() ? thread.wchan : thread.call;
}

std::optional<DiskWait> DiskWaitOf(pid_t pid, pid_t tid) {
  const std::string status =
      stacks::ReadProc(absl::StrCat("/proc/", pid, "/task/", tid, "/status"));
  const stacks::ThreadFacts thread = stacks::LookAtThread(pid, tid);
  if (thread.state != 'D') return std::nullopt;
  return DiskWait{tid, SwitchesOf(status), WaitOf(thread)};
}

// The state letter of ps(1); ' ': the thread has ended.
char StateOfThread(pid_t pid, pid_t tid) {
  const std::string stat = stacks::ReadProc(absl::StrCat("/proc/", pid, "/task/", tid, "/stat"));
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? ' ' : stat[name_end + 2];
}

// Records how long each thread ran or waited for a CPU: the main thread may wait for another thread
// that works, as in backward(). Records the first thread in disk wait.
void LookAtThreads(pid_t pid, ProcessFacts* facts) {
  constexpr std::size_t kMost = 512;  // some microseconds each
  for (const pid_t thread : stacks::ThreadsOf(pid, kMost)) {
    const std::vector<std::string> schedule = absl::StrSplit(
        stacks::ReadProc(absl::StrCat("/proc/", pid, "/task/", thread, "/schedstat")), ' ');
    const char state = StateOfThread(pid, thread);
    std::int64_t ran = 0;
    std::int64_t waited = 0;
    if (schedule.size() > 1 && absl::SimpleAtoi(schedule[0], &ran) &&
        absl::SimpleAtoi(schedule[1], &waited)) {
      facts->waited[thread] = std::chrono::nanoseconds(waited);
      if (state == 'R') facts->wants[thread] = std::chrono::nanoseconds(ran);
    }
    if (!facts->disk && state == 'D') facts->disk = DiskWaitOf(pid, thread);
  }
}

// strace lets a process run between two system calls; a debugger usually does not.
std::string DescribeTracer(pid_t tracer, char state_of_traced) {
  const auto stat = ReadProcessStat(tracer);
  return absl::StrCat(state_of_traced == 't' ? "is held by " : "is traced by ",
                      stat ? stat->name : "a process that has ended", " (pid ", tracer, ")");
}

// A tracer that belongs to the rank itself is no debugger: some sandboxes trace.
void LookAtSpeaker(pid_t pid, const std::vector<pid_t>& family, ProcessFacts* facts) {
  const stacks::ThreadFacts thread = stacks::LookAtThread(pid, pid);
  facts->state = StateOf(thread.state);
  facts->waits_for = WaitOf(thread);
  const std::string status = stacks::ReadProc(absl::StrCat("/proc/", pid, "/status"));
  const std::int64_t tracer = Number(status, "TracerPid:");
  if (tracer == 0) return;
  const bool harmless =
      IsOwnThread(tracer) || std::find(family.begin(), family.end(), tracer) != family.end();
  facts->state = harmless ? ProcessState::kRunnable : ProcessState::kTraced;
  if (!harmless) facts->tracer = DescribeTracer(static_cast<pid_t>(tracer), thread.state);
}

// Counts processes that load data or copy files as work of the rank.
void AddUse(pid_t pid, const std::string& stat, ProcessFacts* facts) {
  facts->cpu += CpuTime(stat);
  const std::string io = stacks::ReadProc(absl::StrCat("/proc/", pid, "/io"));
  // read_bytes and write_bytes include mapped files.
  for (const char* const name : {"rchar:", "wchar:", "read_bytes:", "write_bytes:"}) {
    facts->io_bytes += Number(io, name);
  }
}

// A socket that several processes have open counts once.
void AddTcpBytesOf(pid_t pid, const TcpBytes& node, TcpBytes* bytes) {
  if (node.empty()) return;
  for (const std::string& text : stacks::SocketsOf(pid)) {
    std::uint64_t inode = 0;
    if (!absl::SimpleAtoi(text, &inode)) continue;
    if (const auto found = node.find(inode); found != node.end()) bytes->insert(*found);
  }
}

// A rank is stopped if one of its processes is. `waits_for` then names the process to continue,
// because this helps more than the kernel function in which it waits.
void AddStopped(pid_t pid, const std::string& name, pid_t worker, ProcessFacts* facts) {
  if (facts->state == ProcessState::kTraced) return;
  facts->state = ProcessState::kStopped;
  facts->waits_for = pid == worker ? "" : absl::StrCat("process ", pid, " (", name, ")");
}

// A process other than the speaker may write a checkpoint in the background. So its disk wait is
// reported, but does not decide the rank's state.
void AddDiskWait(pid_t pid, const std::string& name, ProcessFacts* facts) {
  facts->disk = DiskWaitOf(pid, pid);
  if (facts->disk) facts->disk->process = name;
}

}  // namespace

ProcessFacts ReadProcessFacts(pid_t worker, pid_t speaker, const TcpBytes* tcp) {
  ProcessFacts facts;
  if (tcp != nullptr) facts.tcp_bytes.emplace();
  const std::vector<pid_t> all = ProcessesOf(speaker, worker, kMostProcesses);
  LookAtSpeaker(speaker, all, &facts);
  LookAtThreads(speaker, &facts);
  bool found_stopped = false;
  for (const pid_t each : all) {
    const std::string stat = stacks::ReadProc(absl::StrCat("/proc/", each, "/stat"));
    AddUse(each, stat, &facts);
    if (tcp != nullptr) AddTcpBytesOf(each, *tcp, &*facts.tcp_bytes);
    const std::optional<ProcessStat> parsed = ParseProcessStat(stat);
    if (!parsed) continue;
    if (parsed->state == 'T' && !std::exchange(found_stopped, true)) {
      AddStopped(each, parsed->name, worker, &facts);
    }
    if (parsed->state == 'D' && !facts.disk) AddDiskWait(each, parsed->name, &facts);
  }
  facts.read_at = std::chrono::steady_clock::now();
  return facts;
}

ProcessFacts ReadStuckProcess(pid_t pid) {
  constexpr std::size_t kMostThreads = 256;
  stacks::ThreadFacts holds;
  for (const pid_t tid : stacks::ThreadsOf(pid, kMostThreads)) {
    stacks::ThreadFacts thread = stacks::LookAtThread(pid, tid);
    const bool has_ended = thread.state == 'Z' || thread.state == 'X';
    if (!has_ended && holds.state != 'D') holds = std::move(thread);
  }
  ProcessFacts facts;
  facts.state = StateOf(holds.state);
  facts.waits_for = WaitOf(holds);
  return facts;
}

}  // namespace ddprun
