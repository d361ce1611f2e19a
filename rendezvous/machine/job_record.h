// What of a job must outlive the process of its rendezvous. Plain values.
//
// Little is enough: after a restart the agents come back and repeat what they said in the current
// generation. What only the rendezvous knows is here: that the generation was formed and of whom,
// so that its number and its ranks are not given to others, and what the budget of restarts has
// left.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_JOB_RECORD_H_
#define DDPRUN_RENDEZVOUS_MACHINE_JOB_RECORD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/nodes/quarantine.h"
#include "rendezvous/machine/states/timeline.h"

namespace ddprun {

struct NodeRecord {
  AgentId agent_id;
  NodeSpec spec;
  int offered_port = 0;
  NodeRank rank;
  Rank first_rank;
  bool removed = false;  // an operator wants it out of the next generation
  RolePlace role{};
  bool operator==(const NodeRecord&) const = default;
};

struct GovernorRecord {
  int restarts_used = 0;
  // Of the restarts that the window still held, oldest first: how long ago when the record was
  // made. Time that passes until it is read is not counted, so the window is never shorter than
  // asked.
  std::vector<Duration> recent_ages;
  int crashes = 0;   // in a row
  int stepless = 0;  // of these
  int bind_retries = 0;
  std::uint64_t random_state = 0;
  std::optional<std::int64_t> furthest_step{};
  std::optional<Duration> start{};
  int membership_changes = 0;
  std::vector<Duration> membership_ages{};  // as recent_ages
  bool operator==(const GovernorRecord&) const = default;
};

// What an operator was told will happen when the generation ends.
struct PlanRecord {
  bool stop = false;
  bool save = false;
  std::string reason;
  bool saved = false;
  bool preempted = false;
  bool operator==(const PlanRecord&) const = default;
};

struct JobRecord {
  std::uint32_t requeue_number = 0;
  JobSpec spec;
  Generation generation;  // the newest one formed
  std::string master_addr;
  int master_port = 0;
  std::vector<NodeRecord> members;  // of it, by rank
  GovernorRecord governor;
  std::vector<RootCause> causes;  // of earlier generations, oldest first
  bool reports_checkpoints = false;
  std::optional<std::int64_t> checkpoint;
  std::optional<PlanRecord> plan;
  std::optional<RestorePlan> restore{};  // what the generation began with
  std::vector<ResumePoint> timeline{};   // of those that ran before it
  FailureRecord failed_checkpoints{};
  QuarantineRecord quarantine{};
  RunId run_id{};
  bool needs_worker_store = false;
  std::map<std::string, Duration> longest_intervals{};  // PhaseIntervals
  std::optional<Finished> finished;  // the job is over; kept for agents that missed it

  bool operator==(const JobRecord&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_RECORD_H_
