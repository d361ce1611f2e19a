// LogRequest: a request to read workers' log files. LogReader: takes the text.
//
// JobLoop::ReadLogs serves one LogRequest: it requests the text from the agents, which read their
// own files, and passes the text on. A request names a job, a generation, ranks and streams, never
// a path.
//
//     const LogReadId id = loop.NewLogReadId();
//     loop.ReadLogs(id, owner, request, reader);   // calls reader->OnText, ...
//     loop.AcknowledgeLogs(id, bytes);             // whenever the reader has passed on some bytes
//     loop.CancelLogs(id);
//
// No thread waits for a slow reader. At most kMaxUnreadLogBytes of one request are in flight
// between the disks and the LogReader. An agent sends more only after the reader has acknowledged
// bytes.
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

// Limit of readers at the same time, for all jobs together.
inline constexpr std::size_t kMaxLogReaders = 128;
inline constexpr std::size_t kMaxUnreadLogBytes = 256 << 10;  // of one request

struct LogRequest {
  std::string job;
  // Empty: all ranks, if the job has at most kMaxLogRanks. For a finished job whose logs are kept
  // (KeptLogs): the root cause and its first victims.
  std::vector<Rank> ranks{};
  // Not set: the newest generation that has started, and with `follow` also the later ones. If
  // `ranks` is empty, too, and logs of a finished job are kept: the generation of these logs.
  std::optional<Generation> generation{};
  LogStreams streams = LogStreams::kBoth;
  LogSpan span{};       // where to begin: the last lines, or a time
  bool follow = false;  // continue with new text until the workers have ended
};

// Takes the text of a LogRequest. Called from within the loop, by one thread at a time: it must not
// block, and must not call the JobLoop.
class LogReader {
 public:
  virtual ~LogReader() = default;

  // The next bytes of one file: at most 16 KiB, any bytes. A piece may end within a line: at the
  // present end of a file, in a long line, or in a kept copy (KeptLogs). With `follow`, pieces of
  // several files alternate. Call JobLoop::AcknowledgeLogs once the reader has passed the text on.
  virtual void OnText(const LogSource& source, std::string text) = 0;
  // Describes for people the text that follows. It comes before the text of this file, and may also
  // concern files that follow.
  virtual void OnAbout(const LogSource& source, std::string about) = 0;
  // The end of one file. `note`: for people, empty if the file was read to its end: "the agent on
  // n2 has lost contact; ...".
  virtual void OnSourceEnd(const LogSource& source, std::string note) = 0;
  // The last call. OK: everything was read, or the followed workers have ended.
  virtual void OnEnd(absl::Status why) = 0;
};

// Identifies a request until its OnEnd; never 0.
using LogReadId = StrongNumber<struct LogReadIdTag, std::uint64_t>;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_LOG_REQUEST_H_
