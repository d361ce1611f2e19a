// torchrun's options about workers' output: which streams go where, and whose lines are shown.
// Pure.
//
// Log files are always written, so a redirected stream is one that is not shown, and a teed one is
// shown all the same.
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

// Some of a worker's two streams.
struct Streams {
  bool out = false;
  bool err = false;

  friend bool operator==(const Streams&, const Streams&) = default;
};

// -r and -t: streams of every worker, or by local rank; a rank that is not named has none.
using StreamChoice = std::variant<Streams, std::map<int, Streams>>;

// "0" none, "1" stdout, "2" stderr, "3" both; or "0:1,1:3,10:2". Where a rank is named twice the
// last counts, as under torchrun. The error quotes the part that is wrong.
absl::StatusOr<StreamChoice> ParseStreamChoice(absl::string_view text);
std::string FormatStreamChoice(const StreamChoice& choice);

// "0,2,10"; "" is none named.
absl::StatusOr<std::set<int>> ParseLocalRanks(absl::string_view text);
std::string FormatLocalRanks(const std::set<int>& ranks);

struct LogsConfig {
  StreamChoice redirects;            // to files only
  StreamChoice tee;                  // to files and the console, whatever `redirects` says
  std::set<int> local_ranks_filter;  // only these are shown; empty: all
  bool collapse = false;             // lines that are alike in many workers are shown once
  std::string when_full = "drop";    // the disk of the files: drop or wait
  std::int64_t max_size = 0;         // bytes of one file, and as many of the one before; 0: any
  int keep_runs = 0;                 // run folders of this job on this node; 0: all
  int verbosity = 0;                 // of ddprun itself: −1 quiet, 0 normal, 1 verbose
};

// What of this worker's output is shown on the console.
Streams ShownStreams(const LogsConfig& logs, int local_rank);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_LOG_OPTIONS_H_
