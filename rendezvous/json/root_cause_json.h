// A root cause as JSON: the same fields in --report, `ddprun status --json` and `ddprun events`.
// Pure.
#ifndef DDPRUN_RENDEZVOUS_JSON_ROOT_CAUSE_JSON_H_
#define DDPRUN_RENDEZVOUS_JSON_ROOT_CAUSE_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "rendezvous/core/messages.h"

namespace ddprun {

// Members: kind, description, generation, host, node_rank. For a node: reason. For a worker: its
// details. For a hang: also reason, phase, still_s and frames. Last: victims.
nlohmann::ordered_json ToJson(const RootCause& cause);

// "2026-11-21T08:30:22.125Z"
std::string IsoTime(std::int64_t unix_ms);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_JSON_ROOT_CAUSE_JSON_H_
