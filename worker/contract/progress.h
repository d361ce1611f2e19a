// A worker's progress: where it is in the program, and in which collectives. Worker, agent and
// rendezvous share these types. progress_page.h transports them.
//
// Standard library only, header only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_PROGRESS_H_
#define DDPRUN_WORKER_CONTRACT_PROGRESS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Longer names are cut.
inline constexpr std::size_t kProgressNameBytes = 64;
// Collectives of further process groups are only counted as moves.
inline constexpr std::size_t kProgressGroups = 8;
// Details are kept for this many of each group's newest collectives.
inline constexpr std::size_t kProgressRecent = 4;
// Only this many of a program's own phases are counted, in the order of their first use.
inline constexpr std::size_t kProgressOwnPhases = 8;

enum class ProgressPhase : std::uint32_t {
  kStart,      // nothing reported yet
  kInit,       // joining the process group
  kRestore,    // searching for a state and loading it
  kFirstStep,  // in the group; no step is finished yet
  kStep,       // training
  kData,       // the next batch is being loaded
  kCheckpoint,
  kEvaluation,
  kNamed,  // the program's own phase
  kEnd,    // the worker has sent BYE
};
inline constexpr std::array<const char*, 10> kProgressPhaseNames = {
    "start", "init",       "restore",    "first_step", "step",
    "data",  "checkpoint", "evaluation", "",           "end"};

// kNamed: the name is a phase of the program's own.
inline ProgressPhase ProgressPhaseOf(std::string_view name) {
  for (std::size_t i = 0; i < kProgressPhaseNames.size(); ++i) {
    if (!name.empty() && name == kProgressPhaseNames[i]) return static_cast<ProgressPhase>(i);
  }
  return ProgressPhase::kNamed;
}

enum class ProgressOperation : std::uint32_t {
  kOther,
  kBroadcast,
  kAllReduce,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
  kBarrier,
};
inline constexpr std::array<const char*, 10> kProgressOperationNames = {
    "another operation", "broadcast",      "all_reduce", "reduce", "all_gather", "gather",
    "scatter",           "reduce_scatter", "all_to_all", "barrier"};

inline const char* ToString(ProgressOperation operation) {
  return kProgressOperationNames[static_cast<std::size_t>(operation)];
}

struct ProgressCollective {
  // Counted within its group, from 1. In a correct program the n-th collective of a group is the
  // same on all ranks. 0: none yet.
  std::uint64_t number = 0;
  ProgressOperation operation = ProgressOperation::kOther;
  std::uint64_t bytes = 0;  // that this rank contributes
  std::int64_t at_ns = 0;   // CLOCK_MONOTONIC of the worker's host; never in the future
  std::optional<std::uint32_t> bucket{};  // gradient bucket (from 0) that it averages, if any
};

// One of the newest collectives of a group. Its `at_ns` is not set.
struct ProgressRecent {
  ProgressCollective collective;
  bool completed = false;
};

// A member is nullopt if its value is unknown: the worker was just writing it, or it is invalid.
struct ProgressGroup {
  std::optional<ProgressCollective> entered;    // newest
  std::optional<ProgressCollective> completed;  // newest; not necessarily the one before `entered`
  std::uint64_t finished = 0;                   // number of completed ones
  // The newest entered collectives, ordered by number; at most kProgressRecent. Empty if the worker
  // is of an earlier version, which does not write them.
  std::vector<ProgressRecent> recent{};

  // Number of collectives begun and not completed. 0 if unknown.
  std::uint64_t unfinished() const {
    const bool known = entered && completed && entered->number > finished;
    return known ? entered->number - finished : 0;
  }
};

// How often a phase has begun. If the count changed between two readings, the phase occurred,
// however short it was.
struct ProgressBegun {
  ProgressPhase phase = ProgressPhase::kStart;
  std::string name{};  // no control characters
  std::uint64_t times = 0;
};

struct ProgressSnapshot {
  std::int64_t generation = 0;
  std::uint64_t moves = 0;  // changes with each move, that is each sign of progress
  std::int64_t step = -1;   // the last finished step; -1: none
  bool in_optimizer_step = false;
  std::optional<ProgressPhase> phase = ProgressPhase::kStart;
  std::string phase_name = kProgressPhaseNames[0];  // no control characters
  std::int64_t phase_since_ns = 0;                  // like ProgressCollective::at_ns
  std::array<ProgressGroup, kProgressGroups> groups{};
  std::vector<ProgressBegun> begun{};
  bool only_collectives = false;  // only `moves` and `groups` above are reported
};

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_PROGRESS_H_
