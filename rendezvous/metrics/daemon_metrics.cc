#include "rendezvous/metrics/daemon_metrics.h"

#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "rendezvous/core/measures/refusal_reasons.h"
#include "rendezvous/metrics/job_metrics.h"
#include "rendezvous/metrics/metric_writer.h"

namespace ddprun::metrics {
namespace {

void AddProcess(const DaemonStatus& daemon, const DaemonMeasures& measures, MetricWriter* writer) {
  writer->Begin("ddprun_build_info");
  writer->Add(Labels().With("version", daemon.version), 1);
  writer->AddOne("ddprun_start_time_seconds", static_cast<double>(measures.started_unix_ms) / 1000);
  writer->AddOne("ddprun_process_cpu_seconds_total", measures.cpu);
  writer->AddOne("ddprun_process_resident_memory_bytes", measures.resident_bytes);
  if (daemon.descriptors > 0) writer->AddOne("ddprun_process_open_fds", daemon.descriptors);
  writer->AddOne("ddprun_process_max_fds", daemon.descriptor_limit);
}

void AddCalls(const DaemonStatus& daemon, const DaemonMeasures& measures, MetricWriter* writer) {
  writer->AddOne("ddprun_sessions", daemon.sessions);
  writer->Begin("ddprun_grpc_messages_total");
  writer->Add(Labels().With("direction", "received"), measures.messages_received);
  writer->Add(Labels().With("direction", "sent"), measures.messages_sent);
  writer->Begin("ddprun_refusals_total");
  // All from the start: a rate() misses the first increase of a series that was not there.
  for (const char* reason : kRefusalReasons) {
    const auto counted = daemon.refused.find(reason);
    writer->Add(Labels().With("reason", reason),
                counted == daemon.refused.end() ? 0 : counted->second);
  }
}

void AddFiles(const DaemonStatus& daemon, const DaemonMeasures& measures, MetricWriter* writer) {
  writer->AddOne("ddprun_event_lines_dropped_total", daemon.event_lines_dropped);
  writer->AddOne("ddprun_store_commit_seconds", measures.commits);
  if (measures.state_disk) {
    writer->AddOne("ddprun_state_disk_free_bytes", measures.state_disk->free_bytes);
    writer->AddOne("ddprun_state_disk_size_bytes", measures.state_disk->size_bytes);
  }
  writer->Begin("ddprun_certificate_expiry_timestamp_seconds");
  for (const auto& [use, unix_s] : measures.certificates_expire_unix_s) {
    writer->Add(Labels().With("use", use), unix_s);
  }
}

void AddLeadership(const LeadershipStatus& leadership, MetricWriter* writer) {
  writer->AddOne("ddprun_leader", leadership.leads ? 1 : 0);
  writer->AddOne("ddprun_leader_term", leadership.term.revision);
  writer->AddOne("ddprun_leader_changes_total", leadership.changes);
  writer->AddOne("ddprun_leader_validity_seconds", leadership.valid_for);
}

void AddJobsByState(const std::vector<JobStatus>& jobs, MetricWriter* writer) {
  std::array<int, kJobStates.size()> counts{};
  for (const JobStatus& job : jobs) ++counts[static_cast<std::size_t>(job.state)];
  writer->Begin("ddprun_jobs");
  for (const JobState state : kJobStates) {
    writer->Add(Labels().With("state", ToString(state)), counts[static_cast<std::size_t>(state)]);
  }
}

}  // namespace

std::string DaemonMetrics(const DaemonStatus& daemon, const DaemonMeasures& measures,
                          const std::vector<JobStatus>& jobs, Hosts hosts,
                          std::function<void()> rest) {
  MetricWriter writer(std::move(rest));
  AddProcess(daemon, measures, &writer);
  AddCalls(daemon, measures, &writer);
  AddFiles(daemon, measures, &writer);
  if (daemon.leadership) AddLeadership(*daemon.leadership, &writer);
  AddJobsByState(jobs, &writer);
  writer.AddOne("ddprun_jobs_begun_total", daemon.jobs_begun);
  AddJobs(jobs, &writer);
  AddNodes(jobs, hosts, &writer);
  return writer.Take();
}

}  // namespace ddprun::metrics
