// What the launcher has decided about states: with which state this generation begins, and how this
// run's states are marked.
#ifndef DDPRUN_WORKER_SRC_STORAGE_RESTORE_ORDER_H_
#define DDPRUN_WORKER_SRC_STORAGE_RESTORE_ORDER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/formats/safetensors.h"

namespace ddp::internal {

// The values of DDPRUN_RESTORE_*; the same on all ranks.
struct RestoreOrder {
  bool from_the_start = false;  // tier "none": load no state
  bool in_memory = false;       // false: in a checkpoint folder
  std::int64_t step = 0;
  int rank = 0;  // the rank that has the state
  // Which generation made the state. -1: unknown, or another job made it.
  std::int64_t requeue_number = -1;
  std::int64_t generation = -1;

  // True if a file on the source may be loaded. This is the ordered state or, if that is damaged,
  // an older state that no later generation made (a later generation continued from another state).
  // If the maker is unknown (for example because the agent could not read the state), all files are
  // allowed, except if IsFromBefore().
  bool Allows(const Getenv& getenv, const Metadata& metadata) const;
};

// nullopt: the launcher gave no order. `world_size` is the job's number of ranks. Throws
// ConfigError, which names the malformed variable.
std::optional<RestoreOrder> ReadRestoreOrder(const Getenv& getenv, int world_size);

// A newer checkpoint that the ranks look for before they follow the order (DDPRUN_RESTORE_UNSEEN).
// `rank`: the rank that may have it. nullopt: there is none. Throws ConfigError.
std::optional<RestoreOrder> ReadUnseen(const Getenv& getenv, int world_size);

// True if a generation of this run made the state. Then no folder holds a newer state that the
// launcher does not know.
bool IsOfThisRun(const Getenv& getenv, const RestoreOrder& order);

// DDPRUN_ANEW: true if states from before this job are neither loaded nor removed.
bool BeginsAnew(const Getenv& getenv);

// True if a scheduler has started the job again. It then continues from its own files.
bool IsRequeued(const Getenv& getenv);

// True if training begins anew and another run made the state, so this run must not load it. Always
// false in a requeued job: it continues from its own files, which may be of an earlier run.
bool IsFromBefore(const Getenv& getenv, const Metadata& metadata);

// DDPRUN_STATE_TIMEOUT_MS, or 2 minutes: how long to retry a state that cannot be read now. Throws
// ConfigError.
std::chrono::milliseconds StateTimeout(const Getenv& getenv);

// Adds to a state's metadata which job, requeue number and generation made it, if they are known
// (worker/contract/checkpoint_file.h).
void AddMaker(const Getenv& getenv, Metadata* metadata);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_RESTORE_ORDER_H_
