// What /proc tells of a process without holding it. Any thread; reads only.
#ifndef DDPRUN_LAUNCHER_STACKS_PROCESS_FACTS_H_
#define DDPRUN_LAUNCHER_STACKS_PROCESS_FACTS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/stacks/system_calls.h"

namespace ddprun::stacks {

// At most `most` bytes of a file of /proc; empty where it cannot be read.
std::string ReadProc(const std::string& path, std::size_t most = 1 << 16);

// Where a link of /proc leads; empty where it cannot be read.
std::string ReadLink(const std::string& path);

// For `link`, which is what /proc/PID/fd/N links to: "socket to 10.0.0.1:29500". Empty where it is
// no TCP socket, has no peer, or cannot be looked up.
std::string DescribeSocket(pid_t pid, std::string_view link);

// /proc/PID/maps; empty where it cannot be read.
std::string ReadMaps(pid_t pid);

// The threads of a process that are there now, ascending, so that the main one is mostly the first;
// at most `most`. Empty: no such process.
std::vector<pid_t> ThreadsOf(pid_t pid, std::size_t most);

// Its descriptors, in no order; at most `most`. Empty where ddprun may not see them.
std::vector<int> DescriptorsOf(pid_t pid, std::size_t most);

// At most `most` of a process, by address. Reads procfs, which never waits for a disk. Any thread.
// Empty, too, where ddprun may not see the descriptors of the process.
std::vector<UnansweredPeer> UnansweredPeersOf(pid_t pid, std::size_t most);

struct ThreadFacts {
  std::string name;
  char state = '?';
  std::string call;  // as CopiedThread has it
  std::string wchan;
};
ThreadFacts LookAtThread(pid_t pid, pid_t tid);

// Sets of signals; bit n − 1 is signal n.
struct ThreadSignals {
  std::uint64_t pending = 0;  // for this thread alone
  std::uint64_t blocked = 0;
  std::uint64_t caught = 0;  // by a handler of its process
};
std::optional<ThreadSignals> LookAtSignals(pid_t pid, pid_t tid);  // nullopt: it is gone

struct ProcessFacts {
  std::string name;
  char state = '?';
  pid_t traced_by = 0;       // 0: nobody
  uid_t uid = 0;             // the real one
  bool uids_differ = false;  // the real, effective and saved ones
  uid_t owner = 0;           // of the files in /proc/PID: root's, where the process is not dumpable
};
std::optional<ProcessFacts> LookAtProcess(pid_t pid);  // nullopt: it is gone

// "D (disk wait), in read(/data/shard-0017), kernel function folio_wait_bit_common".
std::string DescribeWait(char state, const std::string& call, const std::string& wchan);

// What decides whether one process may trace another; read by LookAtPermission().
struct TracePermission {
  uid_t own_uid = 0;
  bool has_sys_ptrace = false;  // CAP_SYS_PTRACE
  int yama = 0;                 // /proc/sys/kernel/yama/ptrace_scope; 0: not restricted
  bool filtered = false;        // a seccomp filter is on this process
  bool other_user_namespace = false;
};
TracePermission LookAtPermission(pid_t pid);

// In words for who must change it: what is missing, and what gives it. Pure.
std::string ExplainDenied(const ProcessFacts& process, const TracePermission& permission);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_PROCESS_FACTS_H_
