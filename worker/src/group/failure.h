// Classifies an exception and reports it.
#ifndef DDPRUN_WORKER_SRC_GROUP_FAILURE_H_
#define DDPRUN_WORKER_SRC_GROUP_FAILURE_H_

#include <cstdlib>
#include <exception>
#include <functional>
#include <string>

namespace ddp::internal {

struct Failure {
  std::string kind;   // one of kError... of worker/contract/control.h
  std::string type;   // name of the exception type, if known
  std::string text;   // for a person; one line
  bool print = true;  // false: another rank prints it
  int exit_code = EXIT_FAILURE;
};

// The text of an exception without libtorch's stack trace.
std::string TextOf(const std::exception& error);

// Asks the other ranks why a collective failed on this rank. Append the result to the error: for
// example ". Rank 1 does not answer: stopped, or cut off.", or where to look for the cause. May
// take 1.5 s. Returns "" at once if the agent has asked this process to leave its generation.
std::string Cause();

// Describes `error`. For an exception of Gloo, c10d or NCCL, appends Cause().
//
// `rank` is the rank of this process. It decides which of several failing ranks prints the error,
// and which ranks report themselves as victims.
Failure Describe(const std::exception_ptr& error, int rank);
Failure Describe(const std::exception& error, int rank);

// True if another rank is to blame: a collective failed, or another rank has reported a failure.
// Asks no other rank.
bool IsVictim(const std::exception_ptr& error);

// This process's rank, for messages. 0 if the variable is not set or malformed: messages must also
// work if the environment is wrong.
int RankForMessages();

// Ends the process like ddp::run() when its body throws `error`. Any thread.
[[noreturn]] void EndWithFailure(const std::exception_ptr& error);

// For LossPlan::end: ends the process with an error that names the lost rank.
[[noreturn]] void EndBecauseOfLoss();

// Writes `{"message": {"message": "Type: text", "extraInfo": {...}}}` to `path`, like torchrun.
// Never throws: if the file cannot be written, says so on stderr.
void WriteErrorFile(const std::string& path, const Failure& failure, int rank);

// Throws CollectiveError if the agent has asked this process to leave its generation. Cheap; for
// places that a step passes often, so that the process need not compute until its next collective.
void ThrowIfLeaving();

// Throws CollectiveError if the GPU tensors can no longer be trusted (lost_group.h).
void ThrowIfGroupIsLost();

// Calls `operation`, and rethrows its exceptions as ddp::CollectiveError: `<what> failed on rank
// <rank> of <world_size>: <error>. <cause, from the other ranks>`. Errors of this library pass
// unchanged. Also throws if the group is lost (lost_group.h): if it is lost before, `operation`
// does not begin; if it is lost afterwards, the results are not valid.
void Collective(const std::string& what, int rank, int world_size,
                const std::function<void()>& operation);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_FAILURE_H_
