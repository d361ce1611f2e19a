// Checkpoints that could not be saved: how many of a job, and what is known of the last one. Pure.
//
// An agent tells of all that failed in its life, again and again, so nothing is missing where a
// message or a rendezvous was lost. What it has told before is remembered by its agent_id, so
// nothing is counted twice where it comes back.
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

// More than these of one agent are not counted.
inline constexpr std::int64_t kMaxCheckpointFailures = 1'000'000'000;
inline constexpr std::size_t kMaxFailureReasonBytes = 512;

// Of one agent's life, or of a job. `count` 0: none, and the rest means nothing.
struct FailedCheckpoints {
  std::int64_t count = 0;
  std::int64_t last_step = 0;
  std::string last_reason{};
  std::string last_host{};  // of a job only: an agent need not name itself

  bool operator==(const FailedCheckpoints&) const = default;
};

// What one agent has told of so far.
struct ToldFailures {
  AgentId agent;
  std::int64_t count = 0;

  bool operator==(const ToldFailures&) const = default;
};

// All that a FailureTally has to know when it begins anew.
struct FailureRecord {
  FailedCheckpoints total{};
  std::vector<ToldFailures> told{};  // by agent_id

  bool operator==(const FailureRecord&) const = default;
};

// Of one job. Owned by JobMachine.
class FailureTally {
 public:
  // Others than the first so many agents that told of a failure are not heard.
  static constexpr std::size_t kMaxAgents = kMaxNodes;

  FailureTally() = default;
  explicit FailureTally(const FailureRecord& record);

  // An agent on `host` says that these failed in its life. Returns how many of them are new.
  std::int64_t Take(AgentId agent, const std::string& host, const FailedCheckpoints& failed);

  const FailedCheckpoints& total() const { return total_; }
  FailureRecord Record() const;

 private:
  FailedCheckpoints total_;
  std::map<AgentId, std::int64_t> told_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_FAILED_CHECKPOINTS_H_
