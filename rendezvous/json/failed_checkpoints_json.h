// The failed checkpoints as JSON. Pure.
#ifndef DDPRUN_RENDEZVOUS_JSON_FAILED_CHECKPOINTS_JSON_H_
#define DDPRUN_RENDEZVOUS_JSON_FAILED_CHECKPOINTS_JSON_H_

#include <nlohmann/json.hpp>

#include "rendezvous/core/failed_checkpoints.h"

namespace ddprun {

// Sets "failed_checkpoints" (their number) and "last_failed_checkpoint" (step, host and reason, or
// null).
void AddTo(nlohmann::ordered_json* json, const FailedCheckpoints& failed);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_JSON_FAILED_CHECKPOINTS_JSON_H_
