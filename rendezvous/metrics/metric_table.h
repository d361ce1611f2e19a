// Every metric of ddprun: name, kind, labels and help. The rendezvous and the agents write metrics
// from this table alone. scripts/reference_tables.py makes the table of docs/reference.md from it.
// Pure.
//
// Names follow Prometheus: base units, `_total` for counters. A label never has a text that a
// program chooses.
#ifndef DDPRUN_RENDEZVOUS_METRICS_METRIC_TABLE_H_
#define DDPRUN_RENDEZVOUS_METRICS_METRIC_TABLE_H_

#include <string_view>

namespace ddprun::metrics {

enum class Kind { kCounter, kGauge, kHistogram };
enum class Place { kDaemon, kAgent };  // the endpoint that has the metric

struct Metric {
  std::string_view name;
  Kind kind;
  Place place;
  std::string_view labels;  // separated by spaces
  std::string_view help;
};

inline constexpr Metric kMetrics[] = {
    // ---- the rendezvous ----
    {"ddprun_build_info", Kind::kGauge, Place::kDaemon, "version",
     "1, with the version of the rendezvous."},
    {"ddprun_start_time_seconds", Kind::kGauge, Place::kDaemon, "",
     "Unix time at which the rendezvous started."},
    {"ddprun_process_cpu_seconds_total", Kind::kCounter, Place::kDaemon, "",
     "CPU time of the rendezvous, user and system."},
    {"ddprun_process_resident_memory_bytes", Kind::kGauge, Place::kDaemon, "",
     "Resident memory of the rendezvous."},
    {"ddprun_process_open_fds", Kind::kGauge, Place::kDaemon, "",
     "Lower bound of the number of open descriptors of the rendezvous."},
    {"ddprun_process_max_fds", Kind::kGauge, Place::kDaemon, "",
     "Descriptors above which agents are refused."},
    {"ddprun_sessions", Kind::kGauge, Place::kDaemon, "", "Agents that are connected."},
    {"ddprun_grpc_messages_total", Kind::kCounter, Place::kDaemon, "direction",
     "Messages of sessions with agents: received, sent."},
    {"ddprun_refusals_total", Kind::kCounter, Place::kDaemon, "reason",
     "Calls, sessions and HTTP requests that were refused, by reason; docs/security.md."},
    {"ddprun_event_lines_dropped_total", Kind::kCounter, Place::kDaemon, "",
     "Event lines that could not be written to the event file."},
    {"ddprun_store_commit_seconds", Kind::kHistogram, Place::kDaemon, "",
     "Time until a change of the job records was on the disk, or in etcd. Only with --state-dir or "
     "--etcd."},
    {"ddprun_state_disk_free_bytes", Kind::kGauge, Place::kDaemon, "",
     "Free space for the job records. Only with --state-dir."},
    {"ddprun_state_disk_size_bytes", Kind::kGauge, Place::kDaemon, "",
     "Size of the file system with the job records. Only with --state-dir."},
    {"ddprun_certificate_expiry_timestamp_seconds", Kind::kGauge, Place::kDaemon, "use",
     "Unix time at which a certificate of the rendezvous expires: grpc of --tls-cert, http of "
     "--http-cert."},
    {"ddprun_leader", Kind::kGauge, Place::kDaemon, "",
     "1 while the rendezvous leads, 0 while it stands by. Only with --etcd."},
    {"ddprun_leader_term", Kind::kGauge, Place::kDaemon, "",
     "Term of the leader: etcd's revision of its takeover. Only with --etcd."},
    {"ddprun_leader_changes_total", Kind::kCounter, Place::kDaemon, "",
     "Changes of the term that the rendezvous has seen. Only with --etcd."},
    {"ddprun_leader_validity_seconds", Kind::kGauge, Place::kDaemon, "",
     "Time for which the leader can continue without etcd. Only with --etcd."},
    {"ddprun_jobs", Kind::kGauge, Place::kDaemon, "state", "Jobs that are known, by state."},
    {"ddprun_jobs_begun_total", Kind::kCounter, Place::kDaemon, "", "Jobs that have begun."},
    // ---- a job ----
    {"ddprun_job_state", Kind::kGauge, Place::kDaemon, "job state",
     "1 for the state that the job is in, 0 for the others."},
    {"ddprun_job_outcome", Kind::kGauge, Place::kDaemon, "job outcome",
     "1, with the outcome of the job. Only of jobs that have ended."},
    {"ddprun_job_state_seconds", Kind::kGauge, Place::kDaemon, "job", "Time in this state."},
    {"ddprun_job_generation", Kind::kGauge, Place::kDaemon, "job",
     "Generation; -1 before the first forming."},
    {"ddprun_job_world_size", Kind::kGauge, Place::kDaemon, "job",
     "Workers of the current generation."},
    {"ddprun_job_min_nodes", Kind::kGauge, Place::kDaemon, "job", "Nodes that the job needs."},
    {"ddprun_job_nodes", Kind::kGauge, Place::kDaemon, "job state",
     "Nodes by state; spares have the state spare."},
    {"ddprun_job_step", Kind::kGauge, Place::kDaemon, "job", "Newest step of all ranks."},
    {"ddprun_job_steps_per_second", Kind::kGauge, Place::kDaemon, "job",
     "Steps a second, averaged over 15 to 30 s."},
    {"ddprun_job_progress_age_seconds", Kind::kGauge, Place::kDaemon, "job",
     "Time since a rank last moved."},
    {"ddprun_job_progress_limit_seconds", Kind::kGauge, Place::kDaemon, "job",
     "Progress age above which the job hangs."},
    {"ddprun_job_hung", Kind::kGauge, Place::kDaemon, "job", "1 while a reported hang lasts."},
    {"ddprun_job_stragglers", Kind::kGauge, Place::kDaemon, "job",
     "Ranks that keep the others waiting. Only of jobs whose program compares its ranks."},
    {"ddprun_job_straggling_ranks", Kind::kGauge, Place::kDaemon, "job host",
     "Ranks of a host that keep the others waiting. Only the 16 lowest such ranks of a job count."},
    {"ddprun_job_restarts_total", Kind::kCounter, Place::kDaemon, "job cause",
     "Restarts of the workers, by what ended the previous generation."},
    {"ddprun_job_restarts_left", Kind::kGauge, Place::kDaemon, "job",
     "Restarts that the job may still use."},
    {"ddprun_job_recovery_seconds", Kind::kHistogram, Place::kDaemon, "job phase",
     "Time of each phase of a restart, counted once for each node."},
    {"ddprun_job_nodes_lost_total", Kind::kCounter, Place::kDaemon, "job",
     "Nodes that were killed, or silent for longer than their lease."},
    {"ddprun_job_checkpoint_step", Kind::kGauge, Place::kDaemon, "job",
     "Step of the newest durable checkpoint."},
    {"ddprun_job_checkpoint_age_seconds", Kind::kGauge, Place::kDaemon, "job",
     "Time since the newest durable checkpoint."},
    {"ddprun_job_without_checkpoint_seconds", Kind::kGauge, Place::kDaemon, "job",
     "Time since the newest durable checkpoint. If there is none: the age of the job, if it is "
     "expected to save."},
    {"ddprun_job_checkpoint_failures_total", Kind::kCounter, Place::kDaemon, "job tier",
     "Checkpoints that could not be saved (durable), and snapshots that could not be made "
     "(memory)."},
    {"ddprun_job_snapshot_age_seconds", Kind::kGauge, Place::kDaemon, "job",
     "Time since a node reported a newer snapshot in memory."},
    // ---- a node of a job, as its rendezvous knows it ----
    {"ddprun_node_state", Kind::kGauge, Place::kDaemon, "job host state",
     "1, with the state of the node."},
    {"ddprun_node_progress_age_seconds", Kind::kGauge, Place::kDaemon, "job host",
     "Time since a worker of the node has moved."},
    {"ddprun_node_heartbeat_seconds", Kind::kGauge, Place::kDaemon, "job host",
     "Round trip of the node's last heartbeat that was answered."},
    {"ddprun_node_cpu_seconds_total", Kind::kCounter, Place::kDaemon, "job host",
     "CPU time of the node's workers and their children."},
    {"ddprun_node_resident_memory_bytes", Kind::kGauge, Place::kDaemon, "job host",
     "Resident memory of the node's workers and their children."},
    // ---- an agent ----
    {"ddprun_agent_info", Kind::kGauge, Place::kAgent, "job host version",
     "1, with the agent's job, host and version."},
    {"ddprun_agent_generation", Kind::kGauge, Place::kAgent, "",
     "Generation of the workers; -1 before the first."},
    {"ddprun_agent_workers", Kind::kGauge, Place::kAgent, "", "Workers that run."},
    {"ddprun_agent_heartbeat_seconds", Kind::kGauge, Place::kAgent, "",
     "Round trip of the last heartbeat that was answered."},
    {"ddprun_agent_heartbeat_age_seconds", Kind::kGauge, Place::kAgent, "",
     "Time since the agent sent its last heartbeat."},
    {"ddprun_agent_certificate_expiry_timestamp_seconds", Kind::kGauge, Place::kAgent, "use",
     "Unix time at which a certificate of the agent expires: grpc of --tls-cert, http of "
     "--http-cert."},
    {"ddprun_workers_cpu_seconds_total", Kind::kCounter, Place::kAgent, "",
     "CPU time of all workers and their children, including ended ones."},
    {"ddprun_workers_resident_memory_bytes", Kind::kGauge, Place::kAgent, "",
     "Resident memory of the workers and their children."},
    {"ddprun_workers_read_bytes_total", Kind::kCounter, Place::kAgent, "",
     "Bytes that the workers and their children read by system calls."},
    {"ddprun_workers_written_bytes_total", Kind::kCounter, Place::kAgent, "",
     "Bytes that the workers and their children wrote by system calls."},
    {"ddprun_worker_cpu_seconds_total", Kind::kCounter, Place::kAgent, "rank",
     "Like ddprun_workers_cpu_seconds_total, for one rank. Only with --metrics-per-rank."},
    {"ddprun_worker_resident_memory_bytes", Kind::kGauge, Place::kAgent, "rank",
     "Like ddprun_workers_resident_memory_bytes, for one rank. Only with --metrics-per-rank."},
    {"ddprun_worker_read_bytes_total", Kind::kCounter, Place::kAgent, "rank",
     "Like ddprun_workers_read_bytes_total, for one rank. Only with --metrics-per-rank."},
    {"ddprun_worker_written_bytes_total", Kind::kCounter, Place::kAgent, "rank",
     "Like ddprun_workers_written_bytes_total, for one rank. Only with --metrics-per-rank."},
    {"ddprun_checkpoint_seconds", Kind::kHistogram, Place::kAgent, "tier",
     "Time from the copy of a state until the state was complete: durable, or in memory."},
    {"ddprun_cgroup_memory_bytes", Kind::kGauge, Place::kAgent, "",
     "Memory of the agent's control group."},
    {"ddprun_cgroup_memory_limit_bytes", Kind::kGauge, Place::kAgent, "",
     "Memory limit of the agent's control group; absent if there is none."},
    {"ddprun_cgroup_cpu_throttled_seconds_total", Kind::kCounter, Place::kAgent, "",
     "Time for which the agent's control group was throttled."},
    {"ddprun_log_bytes_total", Kind::kCounter, Place::kAgent, "stream",
     "Bytes that workers wrote to stdout and stderr."},
    {"ddprun_log_lines_dropped_total", Kind::kCounter, Place::kAgent, "stream",
     "Lines that the agent did not show because the terminal was too slow."},
    {"ddprun_log_bytes_dropped_total", Kind::kCounter, Place::kAgent, "",
     "Bytes that are missing in log files because the disk was full."},
    {"ddprun_disk_free_bytes", Kind::kGauge, Place::kAgent, "folder",
     "Free space on the file system of logs or checkpoints."},
    {"ddprun_disk_size_bytes", Kind::kGauge, Place::kAgent, "folder",
     "Size of the file system of logs or checkpoints."},
    {"ddprun_gpu_utilization_ratio", Kind::kGauge, Place::kAgent, "gpu",
     "Fraction of time in which a kernel ran, 0 to 1."},
    {"ddprun_gpu_memory_used_bytes", Kind::kGauge, Place::kAgent, "gpu",
     "Memory in use, including the driver's own."},
    {"ddprun_gpu_memory_size_bytes", Kind::kGauge, Place::kAgent, "gpu", "All memory of the GPU."},
    {"ddprun_gpu_temperature_celsius", Kind::kGauge, Place::kAgent, "gpu", "Temperature."},
    {"ddprun_gpu_ecc_errors_total", Kind::kCounter, Place::kAgent, "gpu type",
     "ECC errors since the driver was loaded: corrected, uncorrected."},
    {"ddprun_gpu_xid_errors_total", Kind::kCounter, Place::kAgent, "gpu",
     "XID errors since the agent's first scrape."},
    {"ddprun_gpu_last_xid", Kind::kGauge, Place::kAgent, "gpu",
     "Number of the last XID error; 0: none."},
};

// A metric of the table. An unknown name does not compile.
class Name {
 public:
  consteval Name(const char* name) : metric_(Find(name)) {}
  const Metric& metric() const { return *metric_; }

 private:
  static consteval const Metric* Find(std::string_view name) {
    for (const Metric& metric : kMetrics) {
      if (metric.name == name) return &metric;
    }
    throw "there is no such metric";
  }

  const Metric* metric_;
};

}  // namespace ddprun::metrics

#endif  // DDPRUN_RENDEZVOUS_METRICS_METRIC_TABLE_H_
