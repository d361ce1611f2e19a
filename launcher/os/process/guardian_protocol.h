// The protocol between agent and guardian: one request, then its reply, over a pair of connected
// Unix stream sockets. Internal to launcher/os/process: both ends are the same binary.
//
// A message is its length (8 bytes), then that many bytes of fields. The descriptors of a reply
// come with its first byte (SCM_RIGHTS). A request may have megabytes. The guardian reads it while
// the agent writes it, so neither end blocks forever.
//
// The spawn request, for workers, standbys and the fork server:
//
//   request   argv, the complete env, cwd and CPUs (SpawnRequest). The process gets nothing
//             else from the agent.
//   reply     at once. Either an error: no process was made, for a reason that is known without a
//             disk. Or the pid, which is the process group's too, and four descriptors: pidfd;
//             stdout and stderr, read ends; outcome, a read end.
//   later     the outcome pipe becomes readable. If it ends without a byte, the program runs, or
//             the process was killed before. Otherwise one write holds a byte with absl's status
//             code and the reason for people, and the process exits (SpawnOutcome).
//   at last   pidfd is readable, and the agent asks with kReap, once, how it ended. kDiscard, at
//             any time, kills the process and makes kReap needless. Before either, an ended process
//             stays a zombie, so that its pid is not reused.
//
// The adopt request is for a process that a fork server made. The guardian spawned the fork server.
// The process's parent has ended, so the process is now the guardian's child; it waits for orders:
//
//   request   the pid, from the kernel (SO_PEERCRED).
//   reply     at once. Either an error: the process is no child of the guardian, leads no group,
//             or is a worker already; or the fence is reached. Or the pid and its pidfd.
//   at last   as above: the guardian keeps its zombie until kReap or kDiscard.
//
// Until its adoption the process is a stray: kEndOrphans and the fence end it.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_GUARDIAN_PROTOCOL_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_GUARDIAN_PROTOCOL_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/os/process/process_runner.h"
#include "rendezvous/core/exit_status.h"

namespace ddprun::guardian {

struct Request {
  enum class Type : std::int64_t {
    kSpawn,       // spawn → process
    kAdopt,       // pid → process, with no pipes
    kReap,        // pid → exit
    kDiscard,     // pid: kill the worker; no kReap follows
    kEndOrphans,  // limit → left
    kEnd,         // limit → left; the guardian ends all processes below it, then itself
  };
  Type type = Type::kEnd;
  SpawnRequest spawn;
  pid_t pid = 0;
  std::chrono::microseconds limit{};
};

struct Reply {
  absl::Status status;
  SpawnedProcess process;
  ExitStatus exit;
  std::vector<pid_t> left;
};

// Unavailable: the other end is gone. InvalidArgument: the message is malformed (a bug).
absl::Status Send(int socket, const Request& request);
absl::Status Send(int socket, const Reply& reply);
absl::StatusOr<Request> ReceiveRequest(int socket);
// DeadlineExceeded: no reply within `limit`. If the descriptors of a reply exceed this process's
// limit (ulimit -n), the reply has process.pid but no descriptors.
absl::StatusOr<Reply> ReceiveReply(int socket, std::chrono::milliseconds limit);

}  // namespace ddprun::guardian

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_GUARDIAN_PROTOCOL_H_
