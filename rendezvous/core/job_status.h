// The present state of a job, for `ddprun status`. Plain values; made by JobMachine::Status().
#ifndef DDPRUN_RENDEZVOUS_CORE_JOB_STATUS_H_
#define DDPRUN_RENDEZVOUS_CORE_JOB_STATUS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/core/measures/job_counters.h"
#include "rendezvous/core/measures/node_usage.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

enum class JobState {
  kGathering,
  kLastCall,
  kForming,
  kRunning,
  kSaving,
  kStopping,  // "Draining" for users
  kBackoff,
  kSucceeded,
  kFailed
};
// All states, in their order.
inline constexpr std::array kJobStates = {
    JobState::kGathering, JobState::kLastCall,  JobState::kForming,
    JobState::kRunning,   JobState::kSaving,    JobState::kStopping,
    JobState::kBackoff,   JobState::kSucceeded, JobState::kFailed};
const char* ToString(JobState state);

struct NodeStatus {
  std::string host;
  std::string address;
  // waiting | held back: REASON | spare | assigned | prepared | running | running, is drained |
  // draining | done | ended; with the prefix "lost contact: " if the session broke. `waiting` and
  // `spare` have ": REASON", too, while the folder of checkpoints is not read, or while the node's
  // standbys load.
  std::string state;
  NodeRank rank{-1};  // −1: none in this generation
  Rank first_rank;
  int workers = 0;
  Duration heard_ago{};
  std::optional<std::int64_t> step;  // newest step that its workers reported
  // The newest state of the node that belongs to the training (timeline.h).
  std::optional<SavedState> newest_state{};
  bool spare = false;                 // waits to replace a lost node
  std::vector<StuckProcess> stuck{};  // the node is held back until these are gone
  // `state` without host names and reasons, or "lost contact"; a static text.
  std::string_view activity{};
  std::optional<Duration> still{};  // since one of its workers moved; nullopt: none reports
  NodeUsage usage{};                // as last reported
};

// Whether the ranks of a job move, and whether a hang would be noticed.
struct JobMovement {
  // Of the workers that report progress. `progress` is nullopt if none does, or none runs.
  struct Progress {
    Duration still{};                 // since a rank moved last
    std::optional<Duration> limit{};  // a longer standstill is a hang; nullopt: --hang-timeout off
    std::string hang{};               // a sentence about the hang, if one was reported
    Duration wall{};                  // like `still`, including time that does not count (Excuse)
  };
  std::optional<Progress> progress{};
  // Why a hang would not be noticed now.
  struct NotJudged {
    // Why the standstill of a node's ranks does not count: for example, a debugger holds a rank, or
    // the agent did not run. If there are several excuses: the longest.
    struct Excuse {
      std::optional<Rank> rank{};  // nullopt: the agent of the node
      std::string host;
      int pid = 0;  // of the rank's process; 0: `rank` is nullopt
      std::string why;
      Duration lasts{};
    };
    std::string why;  // the whole text, for people
    std::optional<Excuse> excuse{};
  };
  std::optional<NotJudged> not_judged{};  // set only while workers run
};

struct JobStatus : JobMovement {
  std::string job;
  std::uint32_t requeue_number = 0;
  Generation generation;
  JobState state = JobState::kGathering;
  std::string reason;  // why it is in this state, or what it waits for
  Duration since{};    // in this state
  JobSpec spec;
  int world_size = 0;                   // workers in the current generation
  int restarts_used = 0;                // under this requeue number
  int restarts_left = 0;                // restarts that would be granted now
  std::vector<NodeStatus> nodes;        // members by rank, then the others by arrival
  int spares = 0;                       // how many nodes wait to replace a lost one
  std::optional<RootCause> last_cause;  // root cause of the newest failed generation
  std::optional<std::int64_t> step;     // highest step reported in this generation
  std::optional<std::int64_t> checkpoint;
  std::optional<RestorePlan> restore{};    // the state with which the generation began
  FailedCheckpoints failed_checkpoints{};  // in all generations
  // Set while some ranks, but not all, have connected to an agent's store. If no agent serves the
  // store: once a rank has waited in init() for a minute (rendezvous/hangs/init_wait.h).
  struct Arrivals {
    struct Missing {
      Rank rank;
      std::string host;
    };
    int arrived = 0;
    std::vector<Missing> missing{};  // the lowest ones; empty: not known which
  };
  std::optional<Arrivals> arrivals{};
  std::optional<Finished> finished;
  // Counts and times for people and metrics; no decision uses them.
  struct Measured {
    std::optional<double> steps_per_second{};  // nullopt: no steps are reported
    // Since the newest durable checkpoint was reported, or since the rendezvous restarted.
    std::optional<Duration> checkpoint_age{};
    // The same as checkpoint_age. If a job saves checkpoints and has none yet: since its first
    // start, or since the rendezvous restarted.
    std::optional<Duration> without_checkpoint{};
    std::optional<Duration> snapshot_age{};  // since a node reported the newest snapshot
    // Ranks that keep the others waiting; nullopt: the ranks are not compared.
    std::optional<int> stragglers{};
    std::vector<Rank> straggler_ranks{};  // the lowest ones; at most NodeUsage::kMostNamed
    JobCounters counters{};
  };
  Measured measured{};
};

// "62 of 64 ranks are in init(); missing 17 and 18 on n5".
std::string Describe(const JobStatus::Arrivals& arrivals, int world_size);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_JOB_STATUS_H_
