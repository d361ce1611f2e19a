// What happened to a job, for `ddprun events`: the line of history that operators read and programs
// parse. The owner of the JobMachine adds the job's name and the time.
#ifndef DDPRUN_RENDEZVOUS_CORE_JOB_EVENT_H_
#define DDPRUN_RENDEZVOUS_CORE_JOB_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct JobEvent {
  enum class Kind {
    kJoined,            // an agent: `host`
    kDisconnected,      // its session broke; its lease runs
    kRejoined,          // it came back within its lease
    kFenced,            // it ended its workers because it was cut off; node_time_ms says when
    kLost,              // its lease ran out, or it was killed: `reason`
    kLeft,              // on purpose: `reason`
    kStuck,             // SIGKILL did not end processes of it: it is held back; `reason` says which
    kAdmitted,          // these are gone
    kFormed,            // a generation: `nodes`, `workers`, `restore` if there is a plan
    kStarted,           // its workers
    kSaving,            // a checkpoint was asked for: `reason`
    kCheckpointed,      // one is durable: `step`
    kCheckpointFailed,  // one is not, or several: `host`, `step` and `reason` of the last
    kCheckpointDamaged,  // one is there and not whole: `host`, `step`, `reason`
    kStopping,           // the generation ends: `reason`
    kFailed,             // `cause`
    kRestarted,          // the next generation is coming: `reason`, `restarts` used so far
    kSuperseded,         // by a higher requeue number
    kRecovered,          // the rendezvous was restarted and knows the job again
    kResumed,            // on `host` every worker has made a step after a restart: `times`
    kHung,        // no rank moves: `reason`, `step`, `stacks`, and `cause` if a rank is known
    kMovedAgain,  // after kHung
    kFinished,    // `reason`, `outcome`, `exit_code`, and `cause` if there is one
  };
  Kind kind = Kind::kJoined;
  std::uint32_t requeue_number = 0;
  Generation generation{};
  std::string host{};
  std::string reason{};
  int nodes = 0;
  int workers = 0;
  int restarts = 0;
  std::optional<std::int64_t> step{};
  std::int64_t node_time_ms = 0;  // by the node's wall clock
  std::optional<RootCause> cause{};
  std::optional<EncodedStackTree>
      stacks{};  // of all ranks, where they hang; not of large jobs whole
  std::optional<RestartTimes> times{};
  std::optional<Outcome> outcome{};
  int exit_code = 0;
  std::optional<RestorePlan> restore{};
  std::int64_t failed_checkpoints = 0;  // of the job so far

  bool operator==(const JobEvent&) const = default;
};

// What `event` is in JSON, in the order of Kind. docs/jobs.md lists them for users.
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
                                              "finished"};
static_assert(std::size(kEventNames) == static_cast<std::size_t>(JobEvent::Kind::kFinished) + 1);

constexpr const char* ToString(JobEvent::Kind kind) {
  return kEventNames[static_cast<std::size_t>(kind)];
}

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_JOB_EVENT_H_
