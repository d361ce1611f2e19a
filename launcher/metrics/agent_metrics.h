// The metrics of an agent and its node, in Prometheus's format. Pure.
#ifndef DDPRUN_LAUNCHER_METRICS_AGENT_METRICS_H_
#define DDPRUN_LAUNCHER_METRICS_AGENT_METRICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/agent/usage/node_board.h"
#include "launcher/agent/usage/usage_meter.h"
#include "launcher/metrics/cgroup_use.h"
#include "launcher/os/nvml.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct AgentNames {
  std::string job;
  std::string host;
  std::string version;
};

struct FolderSpace {
  std::string folder;  // "logs", "checkpoints"
  std::int64_t free_bytes = 0;
  std::int64_t size_bytes = 0;
};

// When a certificate of the agent expires.
struct CertificateExpiry {
  std::string use;  // "grpc", "http"
  std::int64_t unix_s = 0;
};

struct AgentMeasures {
  NodeBoard::Facts facts;
  UsageMeter::Reading use;
  bool per_rank = false;  // include the series of each rank
  CgroupUse cgroup{};
  std::vector<FolderSpace> folders{};
  std::vector<CertificateExpiry> certificates{};
  std::vector<GpuReading> gpus{};
  TimePoint now{};
};

std::string AgentMetrics(const AgentNames& names, const AgentMeasures& measures);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_METRICS_AGENT_METRICS_H_
