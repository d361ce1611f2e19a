#include "launcher/config/job_spec_of.h"

#include "launcher/config/values.h"

namespace ddprun {

JobSpec JobSpecOf(const JobConfig& config) {
  JobSpec spec = config.spec;
  spec.min_nodes = config.nodes.min;
  spec.max_nodes = config.nodes.max;
  spec.all_nodes = config.place.all_nodes;
  const HangConfig& hang = config.restart.hang;
  if (const auto limit = ParseDuration(hang.timeout)) spec.hang_timeout = *limit;
  if (hang.on_hang == "restart") spec.on_hang = JobSpec::kRestartHang;
  if (hang.on_hang == "report") spec.on_hang = JobSpec::kReportHang;
  if (hang.timeout == "off") spec.on_hang = JobSpec::kIgnoreHang;
  // kWorkerStore is sent as an empty value, as agents of older versions send it.
  if (config.program.store == kAgentStore) spec.store = kAgentStore;
  return spec;
}

}  // namespace ddprun
