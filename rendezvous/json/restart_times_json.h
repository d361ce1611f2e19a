// RestartTimes as JSON, the same in the report and in events: generation, warm_workers,
// to_first_step, total_ms and phases_ms. phases_ms has the phases by name, in order.
//
// Pure.
#ifndef DDPRUN_RENDEZVOUS_JSON_RESTART_TIMES_JSON_H_
#define DDPRUN_RENDEZVOUS_JSON_RESTART_TIMES_JSON_H_

#include <nlohmann/json.hpp>

#include "rendezvous/core/measures/restart_times.h"

namespace ddprun {

nlohmann::ordered_json ToJson(const RestartTimes& times);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_JSON_RESTART_TIMES_JSON_H_
