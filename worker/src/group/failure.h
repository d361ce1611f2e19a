// Classifies an exception and reports it.
#ifndef DDPRUN_WORKER_SRC_GROUP_FAILURE_H_
#define DDPRUN_WORKER_SRC_GROUP_FAILURE_H_

#include <cstdlib>
#include <exception>
#include <functional>
#include <string>

namespace ddp::internal {

struct Failure {
  std::string kind;   // one of the kErrors of worker/contract/control.h
  std::string type;   // name of the exception type, if known
  std::string text;   // for a person; one line
  bool print = true;  // false: another rank prints it
  int exit_code = EXIT_FAILURE;
};

// The text of an exception without libtorch's stack trace.
std::string TextOf(const std::exception& error);

// Asks the other ranks why a collective failed here; the result is appended to its error: ". Rank 1
// ended.", or where to look for the cause. May take a second.
std::string Cause();

// If a collective failed, asks the other ranks for the cause, which may take a second.
//
// `rank`: of this process. It decides which of several failing ranks prints the error, and which
// report themselves as victims.
Failure Describe(const std::exception_ptr& error, int rank);
Failure Describe(const std::exception& error, int rank);

// True if another rank is to blame: a collective failed, or that rank has reported a failure. Asks
// no other rank.
bool IsVictim(const std::exception_ptr& error);

// This process's rank for messages; 0 if it is not set or malformed, because the environment may be
// what is wrong.
int RankForMessages();

// Ends the process as ddp::run() does when its body throws `error`. Any thread.
[[noreturn]] void EndWithFailure(const std::exception_ptr& error);

// LossPlan::end: ends the process with an error that names the lost rank.
[[noreturn]] void EndBecauseOfLoss();

// Writes `{"message": {"message": "Type: text", "extraInfo": {...}}}` to `path`, as torchrun does.
// Never throws; a file that cannot be written is reported on stderr.
void WriteErrorFile(const std::string& path, const Failure& failure, int rank);

// Throws CollectiveError if the GPU tensors can no longer be trusted (lost_group.h).
void ThrowIfGroupIsLost();

// Calls `operation` and rethrows its exceptions as ddp::CollectiveError: `<what> failed on rank
// <rank> of <world_size>: <error>. <cause, from the other ranks>`. Errors of this library pass
// unchanged. Also throws if the group is lost (lost_group.h): before, `operation` is not begun;
// afterwards, its results are void.
void Collective(const std::string& what, int rank, int world_size,
                const std::function<void()>& operation);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_FAILURE_H_
