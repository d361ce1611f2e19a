// The metrics of a rendezvous and its jobs, in Prometheus' text format. Pure.
//
// The series of jobs and nodes are made from the same data as `ddprun status --json`. A job that
// the rendezvous has forgotten has no series.
#ifndef DDPRUN_RENDEZVOUS_METRICS_DAEMON_METRICS_H_
#define DDPRUN_RENDEZVOUS_METRICS_DAEMON_METRICS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/job_status.h"
#include "rendezvous/core/measures/daemon_status.h"
#include "rendezvous/core/measures/histogram.h"
#include "rendezvous/core/types.h"

namespace ddprun::metrics {

// Space on a file system.
struct DiskSpace {
  std::int64_t free_bytes = 0;  // for users other than root
  std::int64_t size_bytes = 0;
};

// Measurements of a rendezvous that DaemonStatus does not contain.
struct DaemonMeasures {
  std::int64_t started_unix_ms = 0;
  std::int64_t messages_received = 0;  // from agents, in sessions
  std::int64_t messages_sent = 0;
  std::optional<Histogram> commits{};  // of the job records; nullopt: they are in memory only
  std::optional<DiskSpace> state_disk{};
  std::map<std::string, std::int64_t> certificates_expire_unix_s{};  // by use
  Duration cpu{};
  std::int64_t resident_bytes = 0;
};

// kNamed: hosts by name. kNumbered: "node 1", "node 2" in each job.
enum class Hosts { kNamed, kNumbered };

// `rest`: as in MetricWriter.
std::string DaemonMetrics(const DaemonStatus& daemon, const DaemonMeasures& measures,
                          const std::vector<JobStatus>& jobs, Hosts hosts,
                          std::function<void()> rest = nullptr);

}  // namespace ddprun::metrics

#endif  // DDPRUN_RENDEZVOUS_METRICS_DAEMON_METRICS_H_
