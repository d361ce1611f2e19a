#include "rendezvous/metrics/job_metrics.h"

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/core/root_cause.h"

namespace ddprun::metrics {
namespace {

Labels Of(const JobStatus& job) { return Labels().With("job", job.job); }

// Writes one sample for each job that has a value.
template <class Value>
void AddEach(Name name, const std::vector<JobStatus>& jobs, MetricWriter* writer, Value value) {
  writer->Begin(name);
  for (const JobStatus& job : jobs) writer->Add(Of(job), value(job));
}

void AddStates(const std::vector<JobStatus>& jobs, MetricWriter* writer) {
  writer->Begin("ddprun_job_state");
  for (const JobStatus& job : jobs) {
    for (const JobState state : kJobStates) {
      writer->Add(Of(job).With("state", ToString(state)), job.state == state ? 1 : 0);
    }
  }
  writer->Begin("ddprun_job_outcome");
  for (const JobStatus& job : jobs) {
    if (job.finished) writer->Add(Of(job).With("outcome", ToString(job.finished->outcome)), 1);
  }
  AddEach("ddprun_job_state_seconds", jobs, writer, [](const auto& job) { return job.since; });
  AddEach("ddprun_job_generation", jobs, writer,
          [](const auto& job) { return job.generation.value; });
}

void AddSize(const std::vector<JobStatus>& jobs, MetricWriter* writer) {
  AddEach("ddprun_job_world_size", jobs, writer, [](const auto& job) { return job.world_size; });
  AddEach("ddprun_job_min_nodes", jobs, writer, [](const auto& job) { return job.spec.min_nodes; });
  writer->Begin("ddprun_job_nodes");
  for (const JobStatus& job : jobs) {
    std::map<std::string_view, int> counts;
    for (const NodeStatus& node : job.nodes) ++counts[node.activity];
    for (const auto& [activity, count] : counts) {
      writer->Add(Of(job).With("state", activity), count);
    }
  }
}

void AddProgress(const std::vector<JobStatus>& jobs, MetricWriter* writer) {
  AddEach("ddprun_job_step", jobs, writer, [](const auto& job) { return job.step; });
  AddEach("ddprun_job_steps_per_second", jobs, writer,
          [](const auto& job) { return job.measured.steps_per_second; });
  AddEach("ddprun_job_progress_age_seconds", jobs, writer, [](const auto& job) {
    return job.progress ? std::optional(job.progress->still) : std::nullopt;
  });
  AddEach("ddprun_job_progress_limit_seconds", jobs, writer,
          [](const auto& job) { return job.progress ? job.progress->limit : std::nullopt; });
  AddEach("ddprun_job_hung", jobs, writer,
          [](const auto& job) { return job.progress && !job.progress->hang.empty() ? 1 : 0; });
  AddEach("ddprun_job_stragglers", jobs, writer,
          [](const auto& job) { return job.measured.stragglers; });
}

constexpr RootCause::Kind kCauses[] = {
    RootCause::Kind::kWorkerFailed, RootCause::Kind::kWorkerLeftEarly, RootCause::Kind::kNodeLost,
    RootCause::Kind::kNodeLeft, RootCause::Kind::kHung};

void AddRestarts(const std::vector<JobStatus>& jobs, MetricWriter* writer) {
  writer->Begin("ddprun_job_restarts_total");
  for (const JobStatus& job : jobs) {
    const auto& restarts = job.measured.counters.restarts;
    // Every cause has a series from the start: increase() ignores the first value of a series.
    const auto add = [&](std::string_view cause) {
      const auto found = restarts.find(cause);
      writer->Add(Of(job).With("cause", cause), found == restarts.end() ? 0 : found->second);
    };
    for (const RootCause::Kind kind : kCauses) add(NameOf(kind));
    add(JobCounters::kPlanned);
  }
  AddEach("ddprun_job_restarts_left", jobs, writer,
          [](const auto& job) { return job.restarts_left; });
  writer->Begin("ddprun_job_recovery_seconds");
  for (const JobStatus& job : jobs) {
    for (const auto& [phase, histogram] : job.measured.counters.recovery) {
      writer->Add(Of(job).With("phase", phase), histogram);
    }
  }
  AddEach("ddprun_job_nodes_lost_total", jobs, writer,
          [](const auto& job) { return job.measured.counters.nodes_lost; });
}

void AddStatesOfTheTraining(const std::vector<JobStatus>& jobs, MetricWriter* writer) {
  AddEach("ddprun_job_checkpoint_step", jobs, writer,
          [](const auto& job) { return job.checkpoint; });
  AddEach("ddprun_job_checkpoint_age_seconds", jobs, writer,
          [](const auto& job) { return job.measured.checkpoint_age; });
  AddEach("ddprun_job_without_checkpoint_seconds", jobs, writer,
          [](const auto& job) { return job.measured.without_checkpoint; });
  writer->Begin("ddprun_job_checkpoint_failures_total");
  for (const JobStatus& job : jobs) {
    writer->Add(Of(job).With("tier", "durable"), job.failed_checkpoints.count);
    writer->Add(Of(job).With("tier", "memory"), job.measured.counters.failed_snapshots);
  }
  AddEach("ddprun_job_snapshot_age_seconds", jobs, writer,
          [](const auto& job) { return job.measured.snapshot_age; });
}

// A node and the labels of its series.
struct LabelledNode {
  const NodeStatus* node;
  const JobStatus* job;
  Labels labels;
};

std::vector<LabelledNode> LabelNodes(const std::vector<JobStatus>& jobs, Hosts hosts) {
  std::vector<LabelledNode> labelled;
  for (const JobStatus& job : jobs) {
    const Labels of_job = Of(job);
    std::unordered_map<std::string_view, int> agents;  // by host
    int number = 0;
    for (const NodeStatus& node : job.nodes) {
      ++number;
      const int agent = ++agents[node.host];
      const std::string name = hosts == Hosts::kNumbered ? absl::StrCat("node ", number)
                               : agent > 1               ? absl::StrCat(node.host, "#", agent)
                                                         : node.host;
      labelled.push_back({&node, &job, of_job.With("host", name)});
    }
  }
  return labelled;
}

std::ptrdiff_t StragglersOn(const NodeStatus& node, const JobStatus& job) {
  if (node.rank.value < 0) return 0;
  return absl::c_count_if(job.measured.straggler_ranks, [&node](Rank rank) {
    return rank.value >= node.first_rank.value && rank.value < node.first_rank.value + node.workers;
  });
}

}  // namespace

void AddJobs(const std::vector<JobStatus>& jobs, MetricWriter* writer) {
  AddStates(jobs, writer);
  AddSize(jobs, writer);
  AddProgress(jobs, writer);
  AddRestarts(jobs, writer);
  AddStatesOfTheTraining(jobs, writer);
}

void AddNodes(const std::vector<JobStatus>& jobs, Hosts hosts, MetricWriter* writer) {
  const std::vector<LabelledNode> nodes = LabelNodes(jobs, hosts);
  writer->Begin("ddprun_job_straggling_ranks");
  for (const auto& [node, job, labels] : nodes) {
    if (const auto ranks = StragglersOn(*node, *job); ranks > 0) writer->Add(labels, ranks);
  }
  writer->Begin("ddprun_node_state");
  for (const auto& [node, job, labels] : nodes) {
    writer->Add(labels.With("state", node->activity), 1);
  }
  writer->Begin("ddprun_node_progress_age_seconds");
  for (const auto& [node, job, labels] : nodes) writer->Add(labels, node->still);
  writer->Begin("ddprun_node_heartbeat_seconds");
  for (const auto& [node, job, labels] : nodes) {
    if (node->usage.round_trip > Duration{}) writer->Add(labels, node->usage.round_trip);
  }
  writer->Begin("ddprun_node_cpu_seconds_total");
  for (const auto& [node, job, labels] : nodes) {
    writer->Add(labels, std::chrono::duration<double>(node->usage.cpu).count());
  }
  writer->Begin("ddprun_node_resident_memory_bytes");
  for (const auto& [node, job, labels] : nodes) writer->Add(labels, node->usage.resident_bytes);
}

}  // namespace ddprun::metrics
