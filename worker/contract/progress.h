// What is known of a worker's progress: where it is in its program, and in which collectives. The
// words that worker, agent and judge share; progress_page.h is how they travel.
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
// Process groups beyond these are not told apart: their collectives only count as movement.
inline constexpr std::size_t kProgressGroups = 8;
// Of the collectives that a group has entered last, so many are told apart.
inline constexpr std::size_t kProgressRecent = 4;
// A program's own phases: those beyond these, in the order of their first time, are not counted.
inline constexpr std::size_t kProgressOwnPhases = 8;

enum class ProgressPhase : std::uint32_t {
  kStart,      // nothing has been said yet
  kInit,       // joining the group
  kRestore,    // a state is looked for and loaded
  kFirstStep,  // in the group, and no step is finished
  kStep,       // training
  kData,       // the next batch is being loaded
  kCheckpoint,
  kEvaluation,
  kNamed,  // the program's own name for what it does
  kEnd,    // the last word has been said
};
inline constexpr std::array<const char*, 10> kProgressPhaseNames = {
    "start", "init",       "restore",    "first_step", "step",
    "data",  "checkpoint", "evaluation", "",           "end"};

// kNamed for a name that is the program's own.
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
  // Of its group, from 1: the n-th collective is the same one on all ranks. 0: there was none yet.
  std::uint64_t number = 0;
  ProgressOperation operation = ProgressOperation::kOther;
  std::uint64_t bytes = 0;  // that this rank gives
  std::int64_t at_ns = 0;   // CLOCK_MONOTONIC of the worker's host; never in the future
  std::optional<std::uint32_t> bucket{};  // of gradients, from 0, where it averages one
};

// One of the last collectives of a group; `at_ns` is not told of it.
struct ProgressRecent {
  ProgressCollective collective;
  bool completed = false;
};

// What cannot be told, because it was being written or is nonsense, is nullopt.
struct ProgressGroup {
  std::optional<ProgressCollective> entered;    // last
  std::optional<ProgressCollective> completed;  // last, which need not be the one before
  std::uint64_t finished = 0;                   // how many have completed
  // Entered last, in the order of their numbers; at most kProgressRecent. Empty where a worker of
  // an earlier version writes.
  std::vector<ProgressRecent> recent{};

  // Collectives that have begun and not completed; 0 where it cannot be told.
  std::uint64_t unfinished() const {
    const bool known = entered && completed && entered->number > finished;
    return known ? entered->number - finished : 0;
  }
};

// A phase that has begun since the worker started, and how often. What changes between two looks
// has been there, however short it was.
struct ProgressBegun {
  ProgressPhase phase = ProgressPhase::kStart;
  std::string name{};  // no control characters
  std::uint64_t times = 0;
};

struct ProgressSnapshot {
  std::int64_t generation = 0;
  std::uint64_t moves = 0;  // another number: it has moved, in any way
  std::int64_t step = -1;   // the last one that is finished; -1: none
  bool in_optimizer_step = false;
  std::optional<ProgressPhase> phase = ProgressPhase::kStart;
  std::string phase_name = kProgressPhaseNames[0];  // no control characters
  std::int64_t phase_since_ns = 0;                  // as ProgressCollective::at_ns
  std::array<ProgressGroup, kProgressGroups> groups{};
  std::vector<ProgressBegun> begun{};
};

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_PROGRESS_H_
