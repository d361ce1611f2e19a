// The options of an agent, and those of its Supervisor.
#ifndef DDPRUN_LAUNCHER_AGENT_AGENT_OPTIONS_H_
#define DDPRUN_LAUNCHER_AGENT_AGENT_OPTIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/usage/node_board.h"
#include "launcher/agent/usage/usage_meter.h"
#include "launcher/config/job_config.h"
#include "launcher/config/machine/cpus.h"
#include "launcher/core/supervisor_options.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct AgentOptions {
  JobConfig config;
  std::string host;                    // this node's name, for people
  std::string address;                 // this node's address, for the other nodes
  AgentId agent_id;                    // random, not 0
  std::vector<std::string> environ;    // NAME=value, inherited by workers
  std::string why_ineligible{};        // why this node must stay out of the job; empty: it may join
  std::vector<CpuList> worker_cpus{};  // by local rank; empty: workers are not bound
  // Sums up the workers' use of resources, for heartbeats and the metrics endpoint.
  std::shared_ptr<UsageMeter> meter = std::make_shared<UsageMeter>();
  std::shared_ptr<NodeBoard> board{};  // read by the metrics endpoint; null: no endpoint
};

SupervisorOptions SupervisorOptionsOf(const AgentOptions& options);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_AGENT_OPTIONS_H_
