// Which part of which log file: the words of a request for workers' output.
#ifndef DDPRUN_RENDEZVOUS_CORE_LOG_STREAM_H_
#define DDPRUN_RENDEZVOUS_CORE_LOG_STREAM_H_

#include <cstdint>
#include <optional>

#include "rendezvous/core/types.h"

namespace ddprun {

enum class LogStream { kStdout, kStderr };
enum class LogStreams { kBoth, kStdout, kStderr };

// One file: what a worker of a generation wrote to one of its streams.
struct LogSource {
  Generation generation;
  Rank rank;
  LogStream stream = LogStream::kStdout;

  auto operator<=>(const LogSource&) const = default;
};

// How far back a reading begins. Both may be set: then it begins at the later of the two places.
struct LogSpan {
  std::optional<std::int64_t> lines;  // the last of the file; 0: none
  std::optional<Duration> since;      // what was written in the last so long

  bool operator==(const LogSpan&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_LOG_STREAM_H_
