#include "launcher/stacks/process_facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/stacks/system_calls.h"
#include "worker/contract/unique_fd.h"

namespace ddprun::stacks {
namespace {

constexpr std::size_t kMapsBytes = std::size_t{4} << 20;
constexpr std::size_t kTableBytes = std::size_t{1} << 20;
constexpr std::string_view kLinkStart = "socket:[";
constexpr int kSysPtraceBit = 19;  // CAP_SYS_PTRACE of capabilities(7)

// The text after "NAME:" in /proc/PID/status.
absl::string_view Field(absl::string_view status, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    if (line.size() > name.size() && line.substr(0, name.size()) == name &&
        line[name.size()] == ':') {
      return absl::StripAsciiWhitespace(line.substr(name.size() + 1));
    }
  }
  return "";
}

template <typename Number>
Number NumberOr(absl::string_view text, Number otherwise) {
  Number number;
  return absl::SimpleAtoi(text, &number) ? number : otherwise;
}

std::uint64_t HexOrNone(absl::string_view text) {
  std::uint64_t number;
  return absl::SimpleHexAtoi(text, &number) ? number : 0;
}

// The names in a folder that are numbers, at most `most`.
std::vector<int> NumbersIn(const std::string& path, std::size_t most) {
  std::vector<int> numbers;
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) return numbers;
  while (const dirent* const entry = ::readdir(folder)) {
    int number;
    if (numbers.size() < most && absl::SimpleAtoi(entry->d_name, &number))
      numbers.push_back(number);
  }
  ::closedir(folder);
  return numbers;
}

// Takes name and state from "4242 (name) S 1 ...". The name may contain parentheses and spaces.
void TakeStat(absl::string_view stat, ThreadFacts* facts) {
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == absl::string_view::npos || close == absl::string_view::npos || close < open) return;
  facts->name = std::string(stat.substr(open + 1, close - open - 1));
  if (close + 2 < stat.size()) facts->state = stat[close + 2];
}

const char* StateWord(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "waiting";
    case 'D':
      return "disk wait";
    case 'T':
      return "stopped by a signal";
    case 't':
      return "stopped by its tracer";
    case 'Z':
    case 'X':
      return "ended";
    case 'I':
      return "idle";
    default:
      return "state not known";
  }
}

constexpr std::size_t kMostSocketLinks = 4096;

std::set<std::string> SocketsOf(pid_t pid) {
  constexpr std::string_view kStart = "socket:[";
  std::set<std::string> inodes;
  for (const int descriptor : DescriptorsOf(pid, kMostSocketLinks)) {
    const std::string link = ReadLink(absl::StrCat("/proc/", pid, "/fd/", descriptor));
    if (!link.starts_with(kStart) || !link.ends_with(']')) continue;
    inodes.insert(link.substr(kStart.size(), link.size() - kStart.size() - 1));
  }
  return inodes;
}

}  // namespace

std::string ReadProc(const std::string& path, std::size_t most) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  constexpr std::size_t kChunk = 1 << 14;
  while (file.valid() && text.size() < most) {
    const std::size_t had = text.size();
    text.resize(std::min(most, had + kChunk));
    const ssize_t size = ::read(file.get(), text.data() + had, text.size() - had);
    text.resize(had + (size > 0 ? static_cast<std::size_t>(size) : 0));
    if (size == 0 || (size < 0 && errno != EINTR)) break;
  }
  return text;
}

std::string ReadLink(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t size = ::readlink(path.c_str(), target, sizeof(target));
  return size > 0 ? std::string(target, static_cast<std::size_t>(size)) : std::string();
}

std::string ReadMaps(pid_t pid) {
  return ReadProc(absl::StrCat("/proc/", pid, "/maps"), kMapsBytes);
}

std::vector<int> DescriptorsOf(pid_t pid, std::size_t most) {
  return NumbersIn(absl::StrCat("/proc/", pid, "/fd"), most);
}

std::vector<pid_t> ThreadsOf(pid_t pid, std::size_t most) {
  std::vector<pid_t> threads = NumbersIn(absl::StrCat("/proc/", pid, "/task"), most);
  std::sort(threads.begin(), threads.end(), [pid](pid_t a, pid_t b) {
    return std::make_pair(a != pid, a) < std::make_pair(b != pid, b);
  });
  return threads;
}

std::string DescribeSocket(pid_t pid, std::string_view link) {
  if (!link.starts_with(kLinkStart) || !link.ends_with(']')) return "";
  link.remove_prefix(kLinkStart.size());
  link.remove_suffix(1);
  for (const char* const name : {"tcp", "tcp6"}) {
    const std::string table = ReadProc(absl::StrCat("/proc/", pid, "/net/", name), kTableBytes);
    if (const std::string peer = PeerInTable(table, link); !peer.empty()) {
      return absl::StrCat("socket to ", peer);
    }
  }
  return "";
}

ThreadFacts LookAtThread(pid_t pid, pid_t tid) {
  const std::string folder = absl::StrCat("/proc/", pid, "/task/", tid);
  ThreadFacts facts;
  TakeStat(ReadProc(folder + "/stat"), &facts);
  facts.wchan = ReadProc(folder + "/wchan");
  if (facts.wchan == "0") facts.wchan.clear();
  const std::optional<WaitingCall> call = ParseWaitingCall(ReadProc(folder + "/syscall"));
  if (!call.has_value()) return facts;
  facts.call = call->name;
  if (call->descriptor >= 0) {
    std::string path = ReadLink(absl::StrCat("/proc/", pid, "/fd/", call->descriptor));
    if (std::string socket = DescribeSocket(pid, path); !socket.empty()) path = std::move(socket);
    absl::StrAppend(&facts.call, "(", path.empty() ? absl::StrCat("fd ", call->descriptor) : path,
                    ")");
  }
  return facts;
}

std::optional<ThreadSignals> LookAtSignals(pid_t pid, pid_t tid) {
  const std::string status = ReadProc(absl::StrCat("/proc/", pid, "/task/", tid, "/status"));
  if (status.empty()) return std::nullopt;
  return ThreadSignals{HexOrNone(Field(status, "SigPnd")), HexOrNone(Field(status, "SigBlk")),
                       HexOrNone(Field(status, "SigCgt"))};
}

std::optional<ProcessFacts> LookAtProcess(pid_t pid) {
  const std::string folder = absl::StrCat("/proc/", pid);
  const std::string status = ReadProc(folder + "/status");
  struct stat info;
  // The folder itself always has the user's uid; its files may belong to root.
  if (status.empty() || ::stat((folder + "/status").c_str(), &info) != 0) return std::nullopt;
  ProcessFacts facts;
  facts.owner = info.st_uid;
  facts.name = std::string(Field(status, "Name"));
  if (const absl::string_view state = Field(status, "State"); !state.empty()) {
    facts.state = state.front();
  }
  facts.traced_by = NumberOr<pid_t>(Field(status, "TracerPid"), 0);
  const std::vector<std::string> uids = absl::StrSplit(Field(status, "Uid"), '\t');
  facts.uid = NumberOr<uid_t>(uids.front(), 0);
  for (std::size_t i = 1; i < uids.size() && i < 3; ++i) {
    facts.uids_differ = facts.uids_differ || NumberOr<uid_t>(uids[i], 0) != facts.uid;
  }
  return facts;
}

std::string DescribeWait(char state, const std::string& call, const std::string& wchan) {
  std::string text = absl::StrCat(std::string(1, state), " (", StateWord(state), ")");
  if (!call.empty()) absl::StrAppend(&text, ", in ", call);
  if (!wchan.empty()) absl::StrAppend(&text, ", kernel function ", wchan);
  return text;
}

TracePermission LookAtPermission(pid_t pid) {
  TracePermission permission;
  permission.own_uid = ::geteuid();
  const std::string status = ReadProc("/proc/thread-self/status");
  permission.has_sys_ptrace = (HexOrNone(Field(status, "CapEff")) >> kSysPtraceBit & 1) != 0;
  permission.filtered = NumberOr<int>(Field(status, "Seccomp"), 0) != 0;
  permission.yama =
      NumberOr<int>(absl::StripAsciiWhitespace(ReadProc("/proc/sys/kernel/yama/ptrace_scope")), 0);
  const std::string theirs = ReadLink(absl::StrCat("/proc/", pid, "/ns/user"));
  permission.other_user_namespace = !theirs.empty() && theirs != ReadLink("/proc/self/ns/user");
  return permission;
}

std::string ExplainDenied(const ProcessFacts& process, const TracePermission& permission) {
  constexpr absl::string_view kGive = "CAP_SYS_PTRACE gives it (containers: capability SYS_PTRACE)";
  if (!permission.has_sys_ptrace) {
    if (process.uid != permission.own_uid || process.uids_differ) {
      return absl::StrCat("it runs as uid ", process.uid,
                          process.uids_differ ? " with other uids beside" : "", ", ddprun as uid ",
                          permission.own_uid,
                          " without CAP_SYS_PTRACE; run "
                          "ddprun as the same uid or as root");
    }
    if (process.owner != process.uid) {
      return absl::StrCat(
          "it is not dumpable (PR_SET_DUMPABLE, a changed uid, or a program file "
          "that may not be read), and ddprun has no CAP_SYS_PTRACE; ",
          kGive);
    }
    if (permission.yama == 1) {
      return absl::StrCat(
          "Yama's ptrace_scope is 1 (only ancestors may trace), and ddprun has no "
          "CAP_SYS_PTRACE; ",
          kGive, ", or sysctl kernel.yama.ptrace_scope=0");
    }
    if (permission.yama == 2) {
      return absl::StrCat("Yama's ptrace_scope is 2 (only with CAP_SYS_PTRACE); ", kGive,
                          ", or sysctl kernel.yama.ptrace_scope=0");
    }
  }
  if (permission.yama >= 3) {
    return absl::StrCat("Yama's ptrace_scope is ", permission.yama,
                        " (nobody may trace until the machine is rebooted)");
  }
  if (permission.other_user_namespace) {
    return "it is in another user namespace, where ddprun's capabilities do not count";
  }
  if (permission.filtered) {
    return "ddprun's seccomp filter may forbid tracing (containers: allow ptrace and "
           "process_vm_readv in the seccomp profile)";
  }
  if (!permission.has_sys_ptrace) {
    return absl::StrCat(
        "ddprun has no CAP_SYS_PTRACE, and the process has more capabilities or "
        "a security module forbids it; ",
        kGive);
  }
  return "a security module forbids it (see the kernel's log)";
}

std::vector<UnansweredPeer> UnansweredPeersOf(pid_t pid, std::size_t most) {
  const std::set<std::string> inodes = SocketsOf(pid);
  if (inodes.empty()) return {};
  std::vector<UnansweredPeer> peers;
  for (const char* const name : {"tcp", "tcp6"}) {
    const std::string table = ReadProc(absl::StrCat("/proc/", pid, "/net/", name), kTableBytes);
    std::ranges::move(UnansweredInTable(table, inodes), std::back_inserter(peers));
  }
  std::sort(peers.begin(), peers.end());
  if (peers.size() > most) peers.resize(most);
  return peers;
}

}  // namespace ddprun::stacks
