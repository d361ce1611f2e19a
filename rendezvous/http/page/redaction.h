// Redaction for viewers on this host without a credential: they see states and numbers, but no
// host, address, reason, command, root cause or workers' output. Nodes are "node 3". Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_REDACTION_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_REDACTION_H_

#include <nlohmann/json.hpp>

#include "rendezvous/core/job_status.h"

namespace ddprun::http {

void Redact(JobStatus* job);

// Keeps only the members of an event that are known to be harmless.
nlohmann::ordered_json RedactedLine(const nlohmann::ordered_json& line);

// Phases named by the program are summed as "other", as in the metrics.
nlohmann::ordered_json RedactedPhases(const nlohmann::ordered_json& phases_ms);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_REDACTION_H_
