// What the launcher says of states: which one this generation begins with, and who is making those
// of now.
#ifndef DDPRUN_WORKER_SRC_STORAGE_RESTORE_ORDER_H_
#define DDPRUN_WORKER_SRC_STORAGE_RESTORE_ORDER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/formats/safetensors.h"

namespace ddp::internal {

// DDPRUN_RESTORE_*: the same on all ranks.
struct RestoreOrder {
  bool from_the_start = false;  // tier "none": no state is to be loaded
  bool in_memory = false;       // else the state is in a checkpoint folder
  std::int64_t step = 0;
  int rank = 0;  // that has the state
  // Who made it; -1: that is not known, or it was another job.
  std::int64_t requeue_number = -1;
  std::int64_t generation = -1;

  // Whether a file on the source may be loaded: the state itself, or, should that be damaged, an
  // older one that is of no later generation. A later one's went on from elsewhere. Where it is not
  // known who made the state, as of one that the agent could not read, all older ones may be.
  bool Allows(const Getenv& getenv, const Metadata& metadata) const;
};

// Nothing where the launcher gave no order. Throws ConfigError, which names the variable, for what
// is malformed. `world_size`: of the job.
std::optional<RestoreOrder> ReadRestoreOrder(const Getenv& getenv, int world_size);

// Whether a generation of this run of the job made the state: then no folder holds a newer one that
// the launcher has not been told of.
bool IsOfThisRun(const Getenv& getenv, const RestoreOrder& order);

// DDPRUN_ANEW: whatever was there before this run is neither loaded nor removed.
bool BeginsAnew(const Getenv& getenv);

// DDPRUN_STATE_TIMEOUT_MS, or 2 minutes: how long a state that is not given out is tried again.
// Throws ConfigError.
std::chrono::milliseconds StateTimeout(const Getenv& getenv);

// Adds to the metadata of a state who makes it (worker/contract/checkpoint_file.h), where the
// launcher said so.
void AddMaker(const Getenv& getenv, Metadata* metadata);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_RESTORE_ORDER_H_
