// What an exception means for the job, and telling the world about it.
#ifndef DDPRUN_WORKER_SRC_GROUP_FAILURE_H_
#define DDPRUN_WORKER_SRC_GROUP_FAILURE_H_

#include <cstdlib>
#include <exception>
#include <functional>
#include <string>

namespace ddp::internal {

struct Failure {
  std::string kind;   // one of the kErrors of worker/contract/control.h
  std::string type;   // name of the exception's type, as far as it is known
  std::string text;   // for a person; one line
  bool print = true;  // false: another rank prints it
  int exit_code = EXIT_FAILURE;
};

// The text of an exception without libtorch's stack trace.
std::string TextOf(const std::exception& error);

// What the other ranks know of a collective that failed here, to be put behind its error: ". Rank 1
// ended.", or who may know. May take a second.
std::string Cause();

// Asks the other ranks for the cause where a collective failed, which may take a second.
//
// `rank` is this process's own; it decides which of several failing ranks prints, and which
// report themselves as victims.
Failure Describe(const std::exception_ptr& error, int rank);
Failure Describe(const std::exception& error, int rank);

// Whether another rank is to blame: a collective failed, or that rank has said so. Asks nobody.
bool IsVictim(const std::exception_ptr& error);

// This process's rank for messages; 0 if nobody set it or it is malformed, because the environment
// may be the very thing that is wrong.
int RankForMessages();

// Ends the process as ddp::run() does where `error` comes out of its body. Any thread.
[[noreturn]] void EndWithFailure(const std::exception_ptr& error);

// LossPlan::end: the same, with an error that says which rank was lost.
[[noreturn]] void EndBecauseOfLoss();

// Writes `{"message": {"message": "Type: text", "extraInfo": {...}}}` to `path`, as torchrun does.
// Never throws; a file that cannot be written is reported on stderr.
void WriteErrorFile(const std::string& path, const Failure& failure, int rank);

// Throws CollectiveError where the tensors of a GPU are not to be trusted any more (lost_group.h).
void ThrowIfGroupIsLost();

// Calls `operation`; what it throws comes out as ddp::CollectiveError with the text
// `<what> failed on rank <rank> of <world_size>: <error>. <cause, from the other ranks>`. Errors of
// this library pass unchanged. Where the group is lost (lost_group.h), before it or after, it
// throws as well: `operation` is not begun then, or its results are void.
void Collective(const std::string& what, int rank, int world_size,
                const std::function<void()>& operation);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_FAILURE_H_
