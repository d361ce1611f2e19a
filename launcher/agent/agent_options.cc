#include "launcher/agent/agent_options.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "launcher/config/command_line_program.h"
#include "launcher/config/job_spec_of.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

// The configuration has already checked the name.
int SignalNamed(const std::string& name) {
  int signo = 1;
  while (signo < NSIG && SignalName(signo) != name) ++signo;
  return signo;
}

// A hint for the case that a firewall is open for MASTER_PORT only.
std::string HintOfStaticMode(const JobConfig& config) {
  const JobSpec& spec = config.spec;
  const std::string next = FormatEndpoint({spec.master_addr, spec.master_port + 1});
  if (spec.master_port == 0 || config.rendezvous.endpoint != next) return "";
  return absl::StrCat("in static mode every node must reach two ports, ", spec.master_port,
                      " (MASTER_PORT) and ", spec.master_port + 1, " (the rendezvous)");
}

}  // namespace

SupervisorOptions SupervisorOptionsOf(const AgentOptions& options) {
  const JobConfig& config = options.config;
  SupervisorOptions supervisor;
  supervisor.job = config.rendezvous.id;
  supervisor.requeue_number = config.rendezvous.requeue_number;
  supervisor.agent_id = options.agent_id;
  supervisor.spec = JobSpecOf(config);
  supervisor.node = {options.host, options.address, config.nproc_per_node};
  if (config.rendezvous.node_rank >= 0) {
    supervisor.node.requested_rank = NodeRank{config.rendezvous.node_rank};
  }
  supervisor.program = ProgramOf(config.command, config.role);
  supervisor.why_ineligible = options.why_ineligible;
  supervisor.stop_grace = config.stop_grace;
  supervisor.in_place_timeout = config.restart.in_place_timeout;
  supervisor.hang_signal = SignalNamed(config.restart.hang.signal);
  supervisor.leases = !config.standalone();
  supervisor.several = config.rendezvous.several();
  if (!config.standalone()) {
    supervisor.rendezvous =
        config.rendezvous.in_etcd()
            ? absl::StrCat("the rendezvous that etcd at ", config.rendezvous.endpoint, " names")
            : absl::StrCat("the rendezvous at ", config.rendezvous.endpoint);
    supervisor.unreachable_hint = HintOfStaticMode(config);
  }
  supervisor.connect_timeout = config.rendezvous.connect_timeout;
  supervisor.daemon_grace = config.rendezvous.daemon_grace;
  return supervisor;
}

}  // namespace ddprun
