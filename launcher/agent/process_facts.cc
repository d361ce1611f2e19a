#include "launcher/agent/process_facts.h"

#include <unistd.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "launcher/stacks/process_facts.h"

namespace ddprun {
namespace {

// Of the line "NAME: 123" in `text`.
std::int64_t Number(const std::string& text, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    std::int64_t value = 0;
    const absl::string_view rest = line.substr(name.size());
    if (absl::SimpleAtoi(rest, &value)) return value;
  }
  return 0;
}

// Of user and system, by all threads; proc(5) has the fields of stat.
Duration CpuTime(const std::string& stat) {
  // The name of the program is in parentheses, and may have any character in it.
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

// A thread of this process that copies stacks. It may be left behind while it holds the process
// (launcher/stacks/seize.h): that is no debugger.
bool IsOwnThread(std::int64_t tid) {
  return ::access(absl::StrCat("/proc/self/task/", tid).c_str(), F_OK) == 0;
}

// `pid`, its children, and their children; at most kMost.
std::vector<pid_t> WithDescendants(pid_t pid) {
  constexpr std::size_t kMost = 64;
  std::vector<pid_t> all{pid};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const pid_t thread : stacks::ThreadsOf(all[i], kMost)) {
      const std::string children =
          stacks::ReadProc(absl::StrCat("/proc/", all[i], "/task/", thread, "/children"));
      for (const absl::string_view word : absl::StrSplit(children, ' ', absl::SkipWhitespace())) {
        int child = 0;
        if (all.size() < kMost && absl::SimpleAtoi(word, &child)) all.push_back(child);
      }
    }
  }
  return all;
}

// How often a thread was switched out; of its status.
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

bool IsInDiskWait(pid_t pid, pid_t tid) {
  const std::string stat = stacks::ReadProc(absl::StrCat("/proc/", pid, "/task/", tid, "/stat"));
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.compare(name_end + 1, 2, " D") == 0;
}

// How long each thread has waited for a CPU: the main thread may wait for one that does, as in
// backward(). And one that is in disk wait, the first thread where it is.
void LookAtThreads(pid_t pid, ProcessFacts* facts) {
  constexpr std::size_t kMost = 512;  // some microseconds each
  for (const pid_t thread : stacks::ThreadsOf(pid, kMost)) {
    const std::vector<std::string> schedule = absl::StrSplit(
        stacks::ReadProc(absl::StrCat("/proc/", pid, "/task/", thread, "/schedstat")), ' ');
    std::int64_t waited = 0;
    if (schedule.size() > 1 && absl::SimpleAtoi(schedule[1], &waited)) {
      facts->waited[thread] = std::chrono::nanoseconds(waited);
    }
    if (!facts->disk && IsInDiskWait(pid, thread)) facts->disk = DiskWaitOf(pid, thread);
  }
}

}  // namespace

ProcessFacts ReadProcessFacts(pid_t pid) {
  ProcessFacts facts;
  const std::string folder = absl::StrCat("/proc/", pid);
  const stacks::ThreadFacts thread = stacks::LookAtThread(pid, pid);
  facts.state = StateOf(thread.state);
  const std::int64_t tracer = Number(stacks::ReadProc(folder + "/status"), "TracerPid:");
  if (tracer != 0)
    facts.state = IsOwnThread(tracer) ? ProcessState::kRunnable : ProcessState::kTraced;
  facts.waits_for = WaitOf(thread);
  // Processes that load its data or copy its files work for it.
  for (const pid_t each : WithDescendants(pid)) {
    facts.cpu += CpuTime(stacks::ReadProc(absl::StrCat("/proc/", each, "/stat")));
    const std::string io = stacks::ReadProc(absl::StrCat("/proc/", each, "/io"));
    // The last two count mapped files, too.
    for (const char* const name : {"rchar:", "wchar:", "read_bytes:", "write_bytes:"}) {
      facts.io_bytes += Number(io, name);
    }
  }
  facts.read_at = std::chrono::steady_clock::now();
  LookAtThreads(pid, &facts);
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
