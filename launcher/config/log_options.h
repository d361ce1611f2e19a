// torchrun's options about workers' output: where the streams go, and which workers' lines are
// shown. Pure.
//
// Log files are always written. So redirecting a stream means not showing it, and tee means showing
// it in any case.
#ifndef DDPRUN_LAUNCHER_CONFIG_LOG_OPTIONS_H_
#define DDPRUN_LAUNCHER_CONFIG_LOG_OPTIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ddprun {

// A selection of a worker's two streams.
struct Streams {
  bool out = false;
  bool err = false;

  friend bool operator==(const Streams&, const Streams&) = default;
};

// -r and -t: streams of every worker, or by local rank; a rank without an entry has none.
using StreamChoice = std::variant<Streams, std::map<int, Streams>>;

// "0" none, "1" stdout, "2" stderr, "3" both; or "0:1,1:3,10:2". For a repeated rank the last entry
// counts, as under torchrun. The error quotes the invalid part.
absl::StatusOr<StreamChoice> ParseStreamChoice(absl::string_view text);
std::string FormatStreamChoice(const StreamChoice& choice);

// "0,2,10"; "": none.
absl::StatusOr<std::set<int>> ParseLocalRanks(absl::string_view text);
std::string FormatLocalRanks(const std::set<int>& ranks);

struct LogsConfig {
  StreamChoice redirects;            // only to files
  StreamChoice tee;                  // to files and the console, whatever `redirects` says
  std::set<int> local_ranks_filter;  // only these are shown; empty: all
  bool collapse = false;             // equal lines of many workers are shown once
  std::string when_full = "drop";    // when the log files' disk is full: drop or wait
  std::int64_t max_size = 0;         // bytes of a file, and of its predecessor; 0: any
  int keep_runs = 0;                 // how many run folders of this job stay on this node; 0: all
  int verbosity = 0;                 // of ddprun itself: −1 quiet, 0 normal, 1 verbose
};

// The streams of this worker that are shown on the console.
Streams ShownStreams(const LogsConfig& logs, int local_rank);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_LOG_OPTIONS_H_
