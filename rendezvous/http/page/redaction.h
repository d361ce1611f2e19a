// What somebody may see of a job who is on this host and has shown nothing: states and numbers, but
// no host, address, reason, command, root cause or line of a worker. Nodes are "node 3". Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_REDACTION_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_REDACTION_H_

#include <nlohmann/json.hpp>

#include "rendezvous/core/job_status.h"

namespace ddprun::http {

void Redact(JobStatus* job);

// Of a line of history only the members that are known to be harmless.
nlohmann::ordered_json RedactedLine(const nlohmann::ordered_json& line);

// Phases that only the program names are together "other", as in the metrics.
nlohmann::ordered_json RedactedPhases(const nlohmann::ordered_json& phases_ms);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_REDACTION_H_
