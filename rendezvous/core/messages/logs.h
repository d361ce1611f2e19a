// Reading the workers' log files from afar: what the rendezvous orders, what an agent answers.
//
// Neither the JobMachine nor the Supervisor takes part: who serves the job and who runs the agent
// handle these messages themselves. They carry a generation of their own, that of the file.
#ifndef DDPRUN_RENDEZVOUS_CORE_MESSAGES_LOGS_H_
#define DDPRUN_RENDEZVOUS_CORE_MESSAGES_LOGS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

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

// How far back a reading begins. Of several bounds the one that leaves least counts.
struct LogSpan {
  std::optional<std::int64_t> lines{};  // at most this many of the last lines
  std::optional<std::int64_t> bytes{};  // so many of the last bytes, from the next line on
  std::optional<Duration> since{};      // what was written in the last so long, or a little longer

  bool operator==(const LogSpan&) const = default;
};

inline constexpr std::size_t kMaxLogRanks = 64;  // of one request of a reader
inline constexpr std::size_t kMaxLogPieceBytes = 16 << 10;
inline constexpr std::int64_t kMaxLogLines = 1'000'000'000;  // of a LogSpan
inline constexpr std::int64_t kMaxLogBytes = 1LL << 50;      // of a LogSpan
inline constexpr std::size_t kMaxLogWindow = 64 << 10;       // of one reading
inline constexpr int kMaxLogReadings = 32;                   // of one agent, at once
inline constexpr std::size_t kMaxLogNoteBytes = 512;
inline constexpr std::size_t kMaxLogFolderBytes = 1024;

// A reading of one file by one agent. The rendezvous numbers them from 1; an agent forgets them
// with its session.
using LogReadingId = StrongNumber<struct LogReadingIdTag, std::uint64_t>;

// Open the file, and send it in LogPieces: at most `window` bytes before the first MoreLog.
struct ReadLog {
  Generation generation;
  LocalRank local_rank;
  LogStream stream = LogStream::kStdout;
  LogSpan span{};
  bool follow = false;  // until the worker has ended
  std::size_t window = 0;

  bool operator==(const ReadLog&) const = default;
};
// The reader has had so many bytes: send as many more.
struct MoreLog {
  std::size_t bytes = 0;

  bool operator==(const MoreLog&) const = default;
};
// Nobody wants more. A last LogPiece answers it all the same.
struct EndLog {
  bool operator==(const EndLog&) const = default;
};

// From the rendezvous. Answer: LogPieces, one of which is the last.
struct LogOrder {
  LogReadingId reading;
  std::variant<ReadLog, MoreLog, EndLog> what;

  bool operator==(const LogOrder&) const = default;
};

// From an agent.
struct LogPiece {
  LogReadingId reading;
  std::string text{};  // any bytes; at most kMaxLogPieceBytes
  bool last = false;
  std::string note{};  // of the last: why there is no more, for people; empty: that was all

  bool operator==(const LogPiece&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_LOGS_H_
