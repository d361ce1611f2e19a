// Snapshot: the status document of a rendezvous as values, for `ddprun top`. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_SNAPSHOT_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_SNAPSHOT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/text/status_table.h"

namespace ddprun::top {

// Texts have no control characters. Times are milliseconds.
struct NodeRow {
  std::string host;
  std::string address;
  std::string state;
  std::optional<int> first_rank;
  int workers = 0;
  std::optional<std::int64_t> step;
  double heard_ms = 0;  // ago
};

struct JobRow {
  std::string job;
  int generation = 0;
  std::string state;
  std::string reason;
  double since_ms = 0;
  std::int64_t min_nodes = 0;
  std::int64_t max_nodes = 0;
  int world_size = 0;
  Restarts restarts;
  std::optional<std::int64_t> step;
  std::optional<double> steps_per_s;
  std::optional<std::int64_t> checkpoint;
  struct Progress {
    double still_ms = 0;
    std::optional<double> limit_ms;
    // Empty: no hang.
    std::string hang;
  };
  std::optional<Progress> progress;
  // Notes about the ranks, for people.
  struct Notes {
    std::string init;             // ranks missing in init(); empty: none
    std::string not_judged;       // why hangs are not detected; empty: they are
    std::vector<int> stragglers;  // the lowest ranks that keep the others waiting
  };
  Notes notes;
  std::string outcome;  // empty: the job is not over
  int exit_code = 0;
  struct Cause {
    std::string text;  // empty: nothing has failed
    int generation = 0;
  };
  Cause cause;  // the last root cause
  std::vector<NodeRow> nodes;
  std::size_t spares = 0;  // of `nodes`

  std::size_t nodes_without_spares() const { return nodes.size() - std::min(spares, nodes.size()); }
  bool over() const { return !outcome.empty(); }
  bool hung() const { return !over() && progress && !progress->hang.empty(); }
};

struct Snapshot {
  std::string version;
  double uptime_ms = 0;
  std::vector<JobRow> jobs;
};

// Error: Internal if `json` is not a status document.
absl::StatusOr<Snapshot> ParseSnapshot(const std::string& json);

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_SNAPSHOT_H_
