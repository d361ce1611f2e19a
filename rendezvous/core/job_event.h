// The events in the history of a job, for `ddprun events`: people read the lines, programs parse
// them. JobLoop adds the job's name and owner, EventLog the time.
#ifndef DDPRUN_RENDEZVOUS_CORE_JOB_EVENT_H_
#define DDPRUN_RENDEZVOUS_CORE_JOB_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct JobEvent {
  // A node of a generation: global ranks first_rank to first_rank + workers - 1.
  struct Placed {
    std::string host;
    AgentId agent_id;
    Rank first_rank;
    int workers = 0;

    bool operator==(const Placed&) const = default;
  };
  static constexpr int kMaxPlacedRanks = 256;

  // Each comment is "WHEN: FIELDS", with names of EventToJson(). An event with `host` also has
  // `agent`. scripts/reference_tables.py makes a table of docs/reference.md from the comments.
  enum class Kind {
    kJoined,             // an agent joined: `host`, `workers`
    kDisconnected,       // an agent's session broke, and its lease runs: `host`
    kRejoined,           // the agent came back within its lease: `host`
    kFenced,             // an agent ended its workers because it was cut off: `host`, `node_time`
    kLost,               // a node's lease ended, its agent was killed, or it did not accept its
                         // ranks in time: `host`, `reason`
    kLeft,               // a node left, was removed, or is not fit: `host`, `reason`
    kStuck,              // SIGKILL did not end processes of a node, so it is held back: `host`,
                         // `reason`
    kAdmitted,           // the stuck processes of a node are gone: `host`
    kFormed,             // a generation formed: `nodes`, `workers`, `restore` if it has a plan,
                         // `placed` if it has at most kMaxPlacedRanks workers
    kStarted,            // the workers of the generation were told to start: `nodes`, `workers`
    kSaving,             // a checkpoint was requested: `reason`
    kCheckpointed,       // a requested checkpoint is durable: `host`, `step`
    kCheckpointFailed,   // checkpoints of a node failed: `host`, `step` and `reason` of the
                         // last one, `failed_checkpoints` of the job so far
    kCheckpointDamaged,  // a checkpoint is damaged: `host`, `step`, `reason`
    kStopping,           // the generation ends: `reason`
    kFailed,             // the generation failed: `cause`, `reason` (the same as a sentence)
    kRestarted,          // a next generation follows: `reason`, `restarts` used so far
    kSuperseded,         // the job was started again: `reason`
    kRecovered,          // a restarted rendezvous or a new leader continues the recorded job:
                         // `nodes`, unless it has none
    kResumed,            // after a restart, every worker of a node has made a step: `host`,
                         // `warm_workers`, `to_first_step`, `total_ms`, `phases_ms`
    kHung,               // no rank moves for longer than the limit: `reason`, `stacks`, `step` if a
                         // rank has made one, `host` and `cause` if a rank is known
    kMovedAgain,         // a rank moved after a hang that was only reported: `host`, `reason`
    kNotJudged,          // no rank moves for longer than the limit, but the time does not count (a
                         // debugger, say): `host`, `reason`
    kFinished,           // the job ended: `outcome`, `exit_code`, `reason`, `cause` if known
  };
  Kind kind = Kind::kJoined;
  std::uint32_t requeue_number = 0;
  Generation generation{};
  std::string host{};
  AgentId agent_id{};  // of the agent on `host`; 0: not said
  std::string reason{};
  int nodes = 0;
  int workers = 0;
  int restarts = 0;
  std::optional<std::int64_t> step{};
  std::int64_t node_time_ms = 0;  // by the node's wall clock
  std::optional<RootCause> cause{};
  std::optional<EncodedStackTree> stacks{};  // kHung: stacks of all ranks, cut in large jobs
  std::optional<RestartTimes> times{};
  std::optional<Outcome> outcome{};
  int exit_code = 0;
  std::optional<RestorePlan> restore{};
  std::vector<Placed> placed{};
  std::int64_t failed_checkpoints = 0;  // total of the job so far

  bool operator==(const JobEvent&) const = default;
};

// The value of `event` in JSON, in the order of Kind. docs/jobs.md lists them for users.
inline constexpr const char* kEventNames[] = {"joined",
                                              "disconnected",
                                              "rejoined",
                                              "fenced",
                                              "lost",
                                              "left",
                                              "stuck",
                                              "admitted",
                                              "formed",
                                              "started",
                                              "saving",
                                              "checkpointed",
                                              "checkpoint_failed",
                                              "checkpoint_damaged",
                                              "stopping",
                                              "failed",
                                              "restarted",
                                              "superseded",
                                              "recovered",
                                              "resumed",
                                              "hung",
                                              "moved_again",
                                              "not_judged",
                                              "finished"};
static_assert(std::size(kEventNames) == static_cast<std::size_t>(JobEvent::Kind::kFinished) + 1);

constexpr const char* ToString(JobEvent::Kind kind) {
  return kEventNames[static_cast<std::size_t>(kind)];
}

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_JOB_EVENT_H_
