// Checkpoints that could not be saved: the number in a job, and details of the last one. Pure.
//
// Each report of an agent has the total since the agent's start, so a lost message or a restarted
// rendezvous loses no failure. FailureTally remembers the last total per agent_id, so it counts no
// failure twice.
#ifndef DDPRUN_RENDEZVOUS_CORE_FAILED_CHECKPOINTS_H_
#define DDPRUN_RENDEZVOUS_CORE_FAILED_CHECKPOINTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/core/limits.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// The highest total of one agent; the wire format refuses higher values.
inline constexpr std::int64_t kMaxCheckpointFailures = 1'000'000'000;
inline constexpr std::size_t kMaxFailureReasonBytes = 512;

// The failures of one agent since its start, or of a job. If `count` is 0, the other members are
// unset.
struct FailedCheckpoints {
  std::int64_t count = 0;
  std::int64_t last_step = 0;
  std::string last_reason{};
  std::string last_host{};  // empty in an agent's messages

  bool operator==(const FailedCheckpoints&) const = default;
};

// The last total that one agent reported.
struct ToldFailures {
  AgentId agent;
  std::int64_t count = 0;

  bool operator==(const ToldFailures&) const = default;
};

// The persisted form of a FailureTally.
struct FailureRecord {
  FailedCheckpoints total{};
  std::vector<ToldFailures> told{};  // by agent_id

  bool operator==(const FailureRecord&) const = default;
};

// Sums up the failures of one job. Owned by JobMachine.
class FailureTally {
 public:
  // Only the first kMaxAgents agents with a failure are counted.
  static constexpr std::size_t kMaxAgents = kMaxNodes;

  FailureTally() = default;
  explicit FailureTally(const FailureRecord& record);

  // Takes the total of an agent on `host`. Returns how many failures are new.
  std::int64_t Take(AgentId agent, const std::string& host, const FailedCheckpoints& failed);

  const FailedCheckpoints& total() const { return total_; }
  FailureRecord Record() const;

 private:
  FailedCheckpoints total_;
  std::map<AgentId, std::int64_t> told_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_FAILED_CHECKPOINTS_H_
