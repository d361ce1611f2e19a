// Saved states and the plan to restore one, as `status` and `events` show them.
#ifndef DDPRUN_RENDEZVOUS_JSON_RESTORE_JSON_H_
#define DDPRUN_RENDEZVOUS_JSON_RESTORE_JSON_H_

#include <nlohmann/json.hpp>

#include "rendezvous/core/saved_state.h"

namespace ddprun {

// {"step":1200,"epoch":0,"generation":3,"tier":"memory"}; generation null: made before this job.
nlohmann::ordered_json ToJson(const SavedState& state);

// The state, and {"rank":2,"host":"b"}; {"step":0,"tier":"none"} where the training starts anew.
nlohmann::ordered_json ToJson(const RestorePlan& plan);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_JSON_RESTORE_JSON_H_
