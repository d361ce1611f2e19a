// What the agent and its guardian say to each other: one request, then its reply, over a pair of
// connected Unix stream sockets. Internal to launcher/os/process: both ends are the same binary.
//
// A message is its length (8 bytes) and that many bytes of fields; the descriptors of a reply come
// with its first byte (SCM_RIGHTS). A request may be megabytes long, and is read while it is
// written, so none can get stuck.
//
// The spawn request is the same for whoever starts a process for the agent:
//
//   request   argv and env, complete, cwd and CPUs (SpawnRequest). Nothing else of the agent's
//             reaches the process.
//   reply     at once. Either an error: no process was made, for a reason that is known without a
//             disk. Or the pid, which is the process group's too, and four descriptors: pidfd;
//             stdout and stderr, read ends; outcome, a read end.
//   later     the outcome pipe becomes readable. At its end without a byte the program runs, or the
//             process was killed before. Otherwise one write holds a byte with absl's status code
//             and the reason for people, and the process exits (SpawnOutcome).
//   at last   pidfd is readable, and the agent asks with kReap, once, how it ended. kDiscard, at
//             any time, kills what is left and makes kReap needless. Until one of both the process
//             stays a zombie, and its pid its own.
// The adopt request is for a process that a fork server has made, which the guardian has spawned.
// Its parent has ended, so it is the guardian's child by now, and it waits for orders:
//
//   request   the pid, as the kernel told it to the agent (SO_PEERCRED).
//   reply     at once. Either an error: it is no child of the guardian, leads no process group, or
//             the fence is reached. Or the pid and one descriptor: pidfd.
//   at last   as above: the guardian keeps its zombie until kReap or kDiscard.
//
// A process that is not adopted yet is a stray: kEndOrphans and the fence end it.
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
    kDiscard,     // pid: kill the worker; nobody will ask for its end
    kEndOrphans,  // limit → left
    kEnd,         // limit → left; the guardian ends everything below it, and then itself
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

// Unavailable: the other end is gone. InvalidArgument: the bytes are no message (a bug).
absl::Status Send(int socket, const Request& request);
absl::Status Send(int socket, const Reply& reply);
absl::StatusOr<Request> ReceiveRequest(int socket);
// DeadlineExceeded: nothing came within `limit`. A reply whose descriptors did not fit into this
// process (ulimit -n) has process.pid and no descriptors.
absl::StatusOr<Reply> ReceiveReply(int socket, std::chrono::milliseconds limit);

}  // namespace ddprun::guardian

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_GUARDIAN_PROTOCOL_H_
