// torchrun's options about workers' output: where the streams go, and which workers' lines are
// shown. Pure.
//
// All streams go to log files. These options choose which streams the console shows, too. It shows
// a stream of a selected rank if the stream is not redirected, or if it has tee.
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

// -r and -t: the streams of every worker, or streams by local rank. A rank without an entry has no
// stream.
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
  StreamChoice tee;                  // to files and the console, even if redirected
  std::set<int> local_ranks_filter;  // only these are shown; empty: all
  bool collapse = false;             // equal lines of many workers are shown once
  std::string when_full = "drop";    // when the log files' disk is full: drop or wait
  std::int64_t max_size = 0;         // limit in bytes for a file, and for its predecessor; 0: no
                                     // limit
  int keep_runs = 0;                 // number of run folders of this job and host that stay; 0:
                                     // all
  int verbosity = 0;                 // of ddprun itself: −1 quiet, 0 normal, 1 verbose
};

// The streams of this worker that are shown on the console.
Streams ShownStreams(const LogsConfig& logs, int local_rank);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_LOG_OPTIONS_H_
