// Saved states and restore plans as JSON, for `status`, `events` and `--report`.
#ifndef DDPRUN_RENDEZVOUS_JSON_RESTORE_JSON_H_
#define DDPRUN_RENDEZVOUS_JSON_RESTORE_JSON_H_

#include <nlohmann/json.hpp>

#include "rendezvous/core/saved_state.h"

namespace ddprun {

// {"step":1200,"epoch":0,"generation":3,"tier":"memory"}; generation is null if the state was made
// before this job, or if its maker is not known.
nlohmann::ordered_json ToJson(const SavedState& state);

// The state with "rank" and "host" of its source; {"step":0,"tier":"none"} if the training starts
// at step 0.
nlohmann::ordered_json ToJson(const RestorePlan& plan);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_JSON_RESTORE_JSON_H_
