#include "rendezvous/service/operators/metrics_source.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/auth/tls_files.h"
#include "rendezvous/metrics/daemon_metrics.h"
#include "rendezvous/service/low_priority.h"

namespace ddprun {
namespace {

Duration CpuOfThisProcess() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return {};
  const auto sum = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return sum(usage.ru_utime) + sum(usage.ru_stime);
}

std::int64_t ResidentBytesOfThisProcess() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0;
  std::int64_t resident = 0;
  if (!(statm >> pages >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

std::optional<metrics::DiskSpace> SpaceOf(const std::string& folder) {
  struct statvfs space {};
  if (folder.empty() || statvfs(folder.c_str(), &space) != 0) return std::nullopt;
  const auto bytes = [&](std::uint64_t blocks) {
    return static_cast<std::int64_t>(blocks * space.f_frsize);
  };
  return metrics::DiskSpace{bytes(space.f_bavail), bytes(space.f_blocks)};
}

metrics::DaemonMeasures Measure(const JobLoop::Counted& counted, const DaemonStatus& daemon,
                                const MetricsSource::Files& files) {
  const auto started = std::chrono::system_clock::now().time_since_epoch() - daemon.uptime;
  metrics::DaemonMeasures measures;
  measures.started_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(started).count();
  measures.messages_received = counted.received;
  measures.messages_sent = counted.sent;
  measures.commits = counted.commits;
  measures.state_disk = SpaceOf(files.state_dir);
  for (const auto& [use, path] : files.certificates) {
    const auto expiry = path.empty() ? std::nullopt : auth::ExpiryOf(path);
    if (expiry) measures.certificates_expire_unix_s[use] = *expiry;
  }
  measures.cpu = CpuOfThisProcess();
  measures.resident_bytes = ResidentBytesOfThisProcess();
  return measures;
}

// Writing the text of thousands of nodes takes milliseconds. Without pauses it would delay more
// than one in a hundred of their heartbeats.
void LeaveTheCpu() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace

MetricsSource::~MetricsSource() { tasks_.CloseWithin(std::chrono::milliseconds(0)); }

void MetricsSource::Get(const std::optional<std::string>& owner,
                        std::function<void(std::string)> done) {
  const auto hosts = owner ? metrics::Hosts::kNamed : metrics::Hosts::kNumbered;
  loop_->GetMeasured(owner.value_or(""), [this, hosts, done = std::move(done)](
                                             std::vector<JobStatus> jobs,
                                             const JobLoop::Counted& counted) {
    // The task uses no member: the thread may outlive this object.
    tasks_.Post([jobs = std::move(jobs), counted, daemon = daemon_(), files = files_, hosts, done] {
      LowerPriority();
      done(metrics::DaemonMetrics(daemon, Measure(counted, daemon, files), jobs, hosts,
                                  LeaveTheCpu));
    });
  });
}

}  // namespace ddprun
