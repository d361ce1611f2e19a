// Facts about a process from /proc, without holding the process. Any thread; reads only.
#ifndef DDPRUN_LAUNCHER_STACKS_PROCESS_FACTS_H_
#define DDPRUN_LAUNCHER_STACKS_PROCESS_FACTS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/stacks/system_calls.h"

namespace ddprun::stacks {

// At most `most` bytes of a file of /proc; empty: cannot be read.
std::string ReadProc(const std::string& path, std::size_t most = 1 << 16);

// The target of a link of /proc; empty: cannot be read.
std::string ReadLink(const std::string& path);

// Describes `link`, the target of /proc/PID/fd/N: "socket to 10.0.0.1:29500". Empty: no TCP socket,
// no peer, or unknown.
std::string DescribeSocket(pid_t pid, std::string_view link);

// /proc/PID/maps, at most the first 4 MiB; empty: cannot be read.
std::string ReadMaps(pid_t pid);

// The present threads of a process, at most `most`: the main thread, then the others in ascending
// order. Empty: no such process.
std::vector<pid_t> ThreadsOf(pid_t pid, std::size_t most);

// The descriptors of a process, in no order, at most `most`. Empty: ddprun is not allowed to see
// them.
std::vector<int> DescriptorsOf(pid_t pid, std::size_t most);

// The inodes of a process's sockets of any kind, among its first 4,096 descriptors. Empty: none, or
// ddprun is not allowed to see the descriptors.
std::set<std::string> SocketsOf(pid_t pid);

// At most `most` TCP peers of a process that do not answer, by address. Reads procfs, which never
// waits for a disk. Also empty if ddprun is not allowed to see the descriptors of the process.
std::vector<UnansweredPeer> UnansweredPeersOf(pid_t pid, std::size_t most);

struct ThreadFacts {
  std::string name;
  char state = '?';
  std::string call;  // as in CopiedThread
  std::string wchan;
};
ThreadFacts LookAtThread(pid_t pid, pid_t tid);

// Sets of signals; bit n − 1 is signal n.
struct ThreadSignals {
  std::uint64_t pending = 0;  // for this thread only
  std::uint64_t blocked = 0;
  std::uint64_t caught = 0;  // by a handler of its process
};
std::optional<ThreadSignals> LookAtSignals(pid_t pid, pid_t tid);  // nullopt: gone

struct ProcessFacts {
  std::string name;
  char state = '?';
  pid_t traced_by = 0;       // 0: not traced
  uid_t uid = 0;             // the real uid
  bool uids_differ = false;  // real, effective and saved uid differ
  uid_t owner = 0;           // of the files in /proc/PID: root if the process is not dumpable
};
std::optional<ProcessFacts> LookAtProcess(pid_t pid);  // nullopt: gone

// "D (disk wait), in read(/data/shard-0017), kernel function folio_wait_bit_common".
std::string DescribeWait(char state, const std::string& call, const std::string& wchan);

// The facts that decide whether one process is allowed to trace another; from LookAtPermission().
struct TracePermission {
  uid_t own_uid = 0;
  bool has_sys_ptrace = false;  // CAP_SYS_PTRACE
  int yama = 0;                 // /proc/sys/kernel/yama/ptrace_scope; 0: not restricted
  bool filtered = false;        // this process has a seccomp filter
  bool other_user_namespace = false;
};
TracePermission LookAtPermission(pid_t pid);

// Explains to the administrator which permission is missing, and how to grant it. Pure.
std::string ExplainDenied(const ProcessFacts& process, const TracePermission& permission);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_PROCESS_FACTS_H_
