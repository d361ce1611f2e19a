// What somebody wants to read of the workers' log files, and who takes it.
//
// JobLoop::ReadLogs answers one LogRequest: it asks the agents, which read their own files, and
// passes on what comes. A request names a job, a generation, ranks and streams, never a path.
//
//     const LogReadId id = loop.NewLogReadId();
//     loop.ReadLogs(id, owner, request, reader);   // calls reader->OnText, ...
//     loop.AcknowledgeLogs(id, bytes);             // whenever the reader has passed some on
//     loop.CancelLogs(id);
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
#include "rendezvous/core/messages/logs.h"
#include "rendezvous/core/types.h"

namespace ddprun {

inline constexpr std::size_t kMaxLogReaders = 128;            // at once, of all jobs
inline constexpr std::size_t kMaxUnreadLogBytes = 256 << 10;  // of one request

struct LogRequest {
  std::string job;
  // Empty: all ranks of a job that has at most kMaxLogRanks. Of a finished job: the root cause and
  // its victims.
  std::vector<Rank> ranks{};
  // Not set: the newest generation that has started. With `follow` the reading goes on into later
  // ones.
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
