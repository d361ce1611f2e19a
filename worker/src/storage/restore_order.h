// The launcher's orders about states: the state with which this generation begins, and who makes
// new ones.
#ifndef DDPRUN_WORKER_SRC_STORAGE_RESTORE_ORDER_H_
#define DDPRUN_WORKER_SRC_STORAGE_RESTORE_ORDER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/formats/safetensors.h"

namespace ddp::internal {

// DDPRUN_RESTORE_*, the same on all ranks.
struct RestoreOrder {
  bool from_the_start = false;  // tier "none": load no state
  bool in_memory = false;       // false: in a checkpoint folder
  std::int64_t step = 0;
  int rank = 0;  // the rank that has the state
  // The maker of the state; -1: not known, or another job.
  std::int64_t requeue_number = -1;
  std::int64_t generation = -1;

  // True if a file on the source may be loaded: the ordered state or, if that is damaged, an older
  // one of no later generation, because a later generation continued from another state. If the
  // maker is not known, as when the agent could not read the state, all older files may be loaded.
  bool Allows(const Getenv& getenv, const Metadata& metadata) const;
};

// nullopt: the launcher gave no order. Throws ConfigError with the name of a malformed variable.
// `world_size`: of the job.
std::optional<RestoreOrder> ReadRestoreOrder(const Getenv& getenv, int world_size);

// True if a generation of this run made the state. Then no folder holds a newer state that the
// launcher does not know.
bool IsOfThisRun(const Getenv& getenv, const RestoreOrder& order);

// DDPRUN_ANEW: states from before this run are neither loaded nor removed.
bool BeginsAnew(const Getenv& getenv);

// DDPRUN_STATE_TIMEOUT_MS, or 2 minutes: retry limit of an unavailable state. Throws ConfigError.
std::chrono::milliseconds StateTimeout(const Getenv& getenv);

// Adds the maker to the metadata of a state (worker/contract/checkpoint_file.h), if known.
void AddMaker(const Getenv& getenv, Metadata* metadata);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_RESTORE_ORDER_H_
