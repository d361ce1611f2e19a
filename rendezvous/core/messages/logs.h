// Reading the workers' log files remotely: orders of the rendezvous, answers of an agent.
//
// JobLoop and the agent's loop handle these messages. The JobMachine and the Supervisor do not.
// ReadLog names the generation of the file, which may be an old one.
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

// One file: the output of one worker of one generation on one stream.
struct LogSource {
  Generation generation;
  Rank rank;
  LogStream stream = LogStream::kStdout;

  auto operator<=>(const LogSource&) const = default;
};

// How far back a reading begins. With several bounds, the shortest part counts.
struct LogSpan {
  std::optional<std::int64_t> lines{};  // at most this many of the last lines
  // At most this many of the last bytes, from a line's start on.
  std::optional<std::int64_t> bytes{};
  std::optional<Duration> since{};  // the output since this long ago, or slightly more

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

// One reading of one file by one agent. The rendezvous numbers the readings from 1; an agent ends
// them with its session.
using LogReadingId = StrongNumber<struct LogReadingIdTag, std::uint64_t>;

// Opens the file and sends it in LogPieces: at most `window` bytes before the first MoreLog.
struct ReadLog {
  Generation generation;
  LocalRank local_rank;
  LogStream stream = LogStream::kStdout;
  LogSpan span{};
  bool follow = false;  // until the worker has ended
  std::size_t window = 0;

  bool operator==(const ReadLog&) const = default;
};
// The reader has consumed `bytes`: send that many more.
struct MoreLog {
  std::size_t bytes = 0;

  bool operator==(const MoreLog&) const = default;
};
// Ends the reading. A last LogPiece still answers it.
struct EndLog {
  bool operator==(const EndLog&) const = default;
};

// From the rendezvous. Answer: LogPieces; one is marked as the last.
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
  // Of the last piece, for people: why the text is incomplete; "": it is complete.
  std::string note{};

  bool operator==(const LogPiece&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_LOGS_H_
