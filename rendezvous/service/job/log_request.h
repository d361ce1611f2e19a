// What somebody wants to read of the workers' log files, and who takes it.
//
// JobLoop::ReadLogs answers one LogRequest: it asks the agents, which read their own files, and
// passes on what comes. A request names a job, a generation, ranks and streams, never a path.
//
//     LogReadId JobLoop::ReadLogs(std::string owner, LogRequest request,
//                                 std::shared_ptr<LogReader> reader);
//     void JobLoop::AcknowledgeLogs(LogReadId id, std::size_t bytes);   // may also be batched
//     void JobLoop::CancelLogs(LogReadId id);                           // OnEnd does not come then
//
// All three from any thread; they never block. OnEnd may come before ReadLogs has returned.
// NotFound: the owner has no such job. InvalidArgument, FailedPrecondition: it cannot be read, and
// why. ResourceExhausted: too many read at once. Unavailable: the rendezvous ends.
//
// Nothing here waits for a slow reader. At most kMaxUnreadLogBytes of one request are on their way
// between the disks and its LogReader; an agent sends more only when the reader has acknowledged.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_LOG_REQUEST_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_LOG_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/core/log_stream.h"
#include "rendezvous/core/types.h"

namespace ddprun {

inline constexpr std::size_t kMaxLogRanks = 64;               // of one request
inline constexpr std::size_t kMaxLogReaders = 128;            // at once, of all jobs
inline constexpr std::size_t kMaxUnreadLogBytes = 256 << 10;  // of one request

struct LogRequest {
  std::string job;
  // Empty: all ranks, in a job of at most kMaxLogRanks; of a job that is over, those that it ended
  // for.
  std::vector<Rank> ranks{};
  // Not set: the newest one that has started; with `follow` those that come after it as well.
  std::optional<Generation> generation{};
  LogStreams streams = LogStreams::kBoth;
  LogSpan span{};       // how far back: the last lines, or what was written since
  bool follow = false;  // go on with what is written from now on, until the workers have ended
};

// Takes what was asked for. Called by one thread at a time, from within the loop: it must not
// block, and must not call the JobLoop.
class LogReader {
 public:
  virtual ~LogReader() = default;

  // The next bytes of one file, at most 16 KiB, any bytes. They end with a line where there is an
  // end of one; several files come in turns. Must be answered with JobLoop::AcknowledgeLogs once
  // the reader has passed them on.
  virtual void OnText(const LogSource& source, std::string text) = 0;
  // Nothing more comes of this file. `note` is for people, and empty where the file was read to its
  // end: "the agent on n2 has lost contact: ...".
  virtual void OnSourceEnd(const LogSource& source, std::string note) = 0;
  // The last call. OK: all was read, or the workers that were followed have ended.
  virtual void OnEnd(absl::Status why) = 0;
};

// Names a request until its OnEnd; never 0.
using LogReadId = StrongNumber<struct LogReadIdTag, std::uint64_t>;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_LOG_REQUEST_H_
