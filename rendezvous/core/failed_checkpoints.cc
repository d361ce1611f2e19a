#include "rendezvous/core/failed_checkpoints.h"

#include <utility>

namespace ddprun {

FailureTally::FailureTally(const FailureRecord& record) : total_(record.total) {
  for (const ToldFailures& told : record.told) told_[told.agent] = told.count;
}

std::int64_t FailureTally::Take(AgentId agent, const std::string& host,
                                const FailedCheckpoints& failed) {
  const auto known = told_.find(agent);
  const std::int64_t before = known == told_.end() ? 0 : known->second;
  if (failed.count <= before) return 0;  // a repetition, or older than an earlier report
  if (known == told_.end() && told_.size() >= kMaxAgents) return 0;
  told_[agent] = failed.count;
  const std::int64_t added = failed.count - before;
  total_ = {total_.count + added, failed.last_step, failed.last_reason, host};
  return added;
}

FailureRecord FailureTally::Record() const {
  FailureRecord record{total_, {}};
  for (const auto& [agent, count] : told_) record.told.push_back({agent, count});
  return record;
}

}  // namespace ddprun
