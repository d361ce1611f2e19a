#include "launcher/metrics/agent_metrics.h"

#include <chrono>
#include <optional>

#include "rendezvous/metrics/metric_writer.h"

namespace ddprun {
namespace {

using metrics::Labels;
using metrics::MetricWriter;

void AddAgent(const AgentNames& names, const AgentMeasures& measures, MetricWriter* writer) {
  const NodeBoard::Facts& facts = measures.facts;
  writer->Begin("ddprun_agent_info");
  writer->Add(
      Labels().With("job", names.job).With("host", names.host).With("version", names.version), 1);
  writer->AddOne("ddprun_agent_generation", facts.generation.value);
  writer->AddOne("ddprun_agent_workers", facts.workers.size());
  if (facts.round_trip > Duration{}) {
    writer->AddOne("ddprun_agent_heartbeat_seconds", facts.round_trip);
  }
  if (facts.heartbeat_at) {
    writer->AddOne("ddprun_agent_heartbeat_age_seconds", measures.now - *facts.heartbeat_at);
  }
  writer->Begin("ddprun_agent_certificate_expiry_timestamp_seconds");
  for (const CertificateExpiry& each : measures.certificates) {
    writer->Add(Labels().With("use", each.use), each.unix_s);
  }
}

void AddSaves(const NodeBoard::Facts& facts, MetricWriter* writer) {
  writer->Begin("ddprun_checkpoint_seconds");
  writer->Add(Labels().With("tier", "durable"), facts.checkpoints);
  writer->Add(Labels().With("tier", "memory"), facts.snapshots);
}

double SecondsOf(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

void AddWorkers(const Use& all, MetricWriter* writer) {
  writer->AddOne("ddprun_workers_cpu_seconds_total", SecondsOf(all.cpu));
  writer->AddOne("ddprun_workers_resident_memory_bytes", all.resident_bytes);
  writer->AddOne("ddprun_workers_read_bytes_total", all.read_bytes);
  writer->AddOne("ddprun_workers_written_bytes_total", all.written_bytes);
}

void AddRanks(const std::vector<UsageMeter::RankUse>& ranks, MetricWriter* writer) {
  const auto add = [&](metrics::Name name, auto value) {
    writer->Begin(name);
    for (const auto& [rank, use] : ranks) {
      writer->Add(Labels().With("rank", std::to_string(rank.value)), value(use));
    }
  };
  add("ddprun_worker_cpu_seconds_total", [](const Use& use) { return SecondsOf(use.cpu); });
  add("ddprun_worker_resident_memory_bytes", [](const Use& use) { return use.resident_bytes; });
  add("ddprun_worker_read_bytes_total", [](const Use& use) { return use.read_bytes; });
  add("ddprun_worker_written_bytes_total", [](const Use& use) { return use.written_bytes; });
}

void AddLogs(const LogTotals& logs, MetricWriter* writer) {
  const Labels out = Labels().With("stream", "stdout");
  const Labels err = Labels().With("stream", "stderr");
  writer->Begin("ddprun_log_bytes_total");
  writer->Add(out, logs.out_bytes);
  writer->Add(err, logs.err_bytes);
  writer->Begin("ddprun_log_lines_dropped_total");
  writer->Add(out, logs.out_lines_dropped);
  writer->Add(err, logs.err_lines_dropped);
  writer->AddOne("ddprun_log_bytes_dropped_total", logs.file_bytes_dropped);
}

void AddHost(const AgentMeasures& measures, MetricWriter* writer) {
  writer->AddOne("ddprun_cgroup_memory_bytes", measures.cgroup.memory_bytes);
  writer->AddOne("ddprun_cgroup_memory_limit_bytes", measures.cgroup.memory_limit_bytes);
  if (measures.cgroup.throttled) {
    writer->AddOne("ddprun_cgroup_cpu_throttled_seconds_total",
                   Duration(*measures.cgroup.throttled));
  }
  writer->Begin("ddprun_disk_free_bytes");
  for (const FolderSpace& each : measures.folders) {
    writer->Add(Labels().With("folder", each.folder), each.free_bytes);
  }
  writer->Begin("ddprun_disk_size_bytes");
  for (const FolderSpace& each : measures.folders) {
    writer->Add(Labels().With("folder", each.folder), each.size_bytes);
  }
}

Labels Of(const GpuReading& gpu) { return Labels().With("gpu", std::to_string(gpu.index)); }

void AddGpus(const std::vector<GpuReading>& gpus, MetricWriter* writer) {
  const auto add = [&](metrics::Name name, auto value) {
    writer->Begin(name);
    for (const GpuReading& gpu : gpus) writer->Add(Of(gpu), value(gpu));
  };
  add("ddprun_gpu_utilization_ratio", [](const GpuReading& gpu) { return gpu.utilization; });
  add("ddprun_gpu_memory_used_bytes", [](const GpuReading& gpu) { return gpu.memory_used; });
  add("ddprun_gpu_memory_size_bytes", [](const GpuReading& gpu) { return gpu.memory_size; });
  add("ddprun_gpu_temperature_celsius", [](const GpuReading& gpu) { return gpu.celsius; });
  writer->Begin("ddprun_gpu_ecc_errors_total");
  for (const GpuReading& gpu : gpus) {
    writer->Add(Of(gpu).With("type", "corrected"), gpu.ecc_corrected);
    writer->Add(Of(gpu).With("type", "uncorrected"), gpu.ecc_uncorrected);
  }
  add("ddprun_gpu_xid_errors_total", [](const GpuReading& gpu) { return gpu.xid_errors; });
  add("ddprun_gpu_last_xid", [](const GpuReading& gpu) {
    return gpu.xid_errors ? std::optional(gpu.last_xid) : std::nullopt;
  });
}

}  // namespace

std::string AgentMetrics(const AgentNames& names, const AgentMeasures& measures) {
  MetricWriter writer;
  AddAgent(names, measures, &writer);
  AddWorkers(measures.use.all, &writer);
  if (measures.per_rank) AddRanks(measures.use.ranks, &writer);
  AddSaves(measures.facts, &writer);
  AddLogs(measures.facts.logs, &writer);
  AddHost(measures, &writer);
  AddGpus(measures.gpus, &writer);
  return writer.Take();
}

}  // namespace ddprun
