// The output of `ddprun status` for people, made from the JSON answer of the rendezvous, and words
// that it shares with other commands. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_STATUS_TABLE_H_
#define DDPRUN_LAUNCHER_TEXT_STATUS_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ddprun {

struct StatusTableOptions {
  std::string endpoint;
  bool all_nodes = false;  // false: for a job with many nodes, only unusual nodes
};

// Lines, each with its newline. Internal: `json` is no status document.
absl::StatusOr<std::string> StatusTable(const std::string& json, const StatusTableOptions& options);

// "3 d 4 h", "2 h 13 min", "45 s", "0.4 s": at most the two largest units.
std::string Age(double milliseconds);

// "state unreadable": an outcome of the JSON, for people.
std::string OutcomeText(const std::string& outcome);

struct Restarts {
  std::int64_t used = 0;  // in the whole job, also before --restart-window
  std::int64_t most = 0;  // --max-restarts
  std::int64_t left = 0;  // would be granted now
};
// "1 of 3 restarts used, 2 left".
std::string RestartsText(const Restarts& restarts);

// "straggler: rank 9 keeps the others waiting". `ranks` is not empty.
std::string StragglersText(const std::vector<int>& ranks);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_STATUS_TABLE_H_
