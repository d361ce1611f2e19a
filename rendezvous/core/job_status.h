// What a job looks like now, for `ddprun status`. Plain values; made by JobMachine::Status.
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
  kStopping,  // "Draining" for users, as it has always been
  kBackoff,
  kSucceeded,
  kFailed
};
// All of them, in their order.
inline constexpr std::array kJobStates = {
    JobState::kGathering, JobState::kLastCall,  JobState::kForming,
    JobState::kRunning,   JobState::kSaving,    JobState::kStopping,
    JobState::kBackoff,   JobState::kSucceeded, JobState::kFailed};
const char* ToString(JobState state);

struct NodeStatus {
  std::string host;
  std::string address;
  // waiting | held back: REASON | spare | assigned | prepared | running | done | draining; "lost
  // contact: " before it when its session broke and its lease runs.
  std::string state;
  NodeRank rank{-1};  // −1: none in this generation
  Rank first_rank;
  int workers = 0;
  Duration heard_ago{};
  std::optional<std::int64_t> step;          // the newest that its workers reported
  std::optional<SavedState> newest_state{};  // that it holds, and that is not of a dead timeline
  bool spare = false;                        // it waits until one of the group is lost
  std::vector<StuckProcess> stuck{};         // of it: it is held back until they are gone
  // Of `state`, without host names and reasons, or "lost contact"; a static text.
  std::string_view activity{};
  std::optional<Duration> still{};  // since the last of its workers moved, where they tell
  NodeUsage usage{};                // as it was told last
};

// Whether the ranks of a job move, and whether anybody would notice if none did.
struct JobMovement {
  // Of the workers that tell how far they are; nullopt: none does, or none runs.
  struct Progress {
    Duration still{};  // since a rank moved last
    std::optional<Duration>
        limit{};         // for longer than that it is a hang; nullopt: --hang-timeout off
    std::string hang{};  // what keeps it from moving now, where a hang was called
    Duration wall{};     // as `still`, with the time that does not count
  };
  std::optional<Progress> progress{};
  // Why nobody would notice now that the job hangs.
  struct NotJudged {
    // A rank, or an agent, whose time does not count; of several the one with the longest excuse.
    struct Excuse {
      std::optional<Rank> rank{};  // not set: the agent of the node
      std::string host;
      int pid = 0;  // of the rank; 0: of none
      std::string why;
      Duration lasts{};
    };
    std::string why;  // for people, all of it
    std::optional<Excuse> excuse{};
  };
  std::optional<NotJudged> not_judged{};  // while workers run
};

struct JobStatus : JobMovement {
  std::string job;
  std::uint32_t requeue_number = 0;
  Generation generation;
  JobState state = JobState::kGathering;
  std::string reason;  // why it is in this state, or what it waits for
  Duration since{};    // in this state
  JobSpec spec;
  int world_size = 0;             // of the current generation
  int restarts_used = 0;          // in the whole job
  int restarts_left = 0;          // from now on, where a window is given within it
  std::vector<NodeStatus> nodes;  // members by rank, then the others in the order of their arrival
  std::optional<RootCause> last_cause;  // of the newest generation that failed
  std::optional<std::int64_t> step;     // the newest of all
  std::optional<std::int64_t> checkpoint;
  std::optional<RestorePlan> restore{};    // what the generation began with
  FailedCheckpoints failed_checkpoints{};  // of all generations
  // While not all ranks have come to the store that an agent serves.
  struct Arrivals {
    struct Missing {
      Rank rank;
      std::string host;
    };
    int arrived = 0;
    std::vector<Missing> missing{};  // the lowest of them; none: it is not known which
  };
  std::optional<Arrivals> arrivals{};
  std::optional<Finished> finished;
  // What is counted and timed for people and metrics alone.
  struct Measured {
    std::optional<double> steps_per_second{};  // now; while steps are told
    // Since the newest durable checkpoint was reported. A rendezvous that was started again counts
    // from then.
    std::optional<Duration> checkpoint_age{};
    // The same; of a job that saves and has no checkpoint yet, since its first start.
    std::optional<Duration> without_checkpoint{};
    std::optional<Duration> snapshot_age{};  // since a node told of a newer one in memory
    // Ranks that keep the others waiting; nullopt: nobody compares them.
    std::optional<int> stragglers{};
    std::vector<Rank> straggler_ranks{};  // the lowest of them; at most NodeUsage::kMostNamed
    JobCounters counters{};
  };
  Measured measured{};
};

// "61 of 64 ranks are in init(); missing 17 and 18 on n5".
std::string Describe(const JobStatus::Arrivals& arrivals, int world_size);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_JOB_STATUS_H_
