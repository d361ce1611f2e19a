// The status of a rendezvous and its jobs as JSON, for `ddprun status`. Pure.
#ifndef DDPRUN_RENDEZVOUS_JSON_STATUS_JSON_H_
#define DDPRUN_RENDEZVOUS_JSON_STATUS_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rendezvous/core/job_status.h"
#include "rendezvous/core/measures/daemon_status.h"

namespace ddprun {

// One job, with its nodes.
nlohmann::ordered_json ToJson(const JobStatus& job, std::int64_t now_unix_ms);

// `now_unix_ms`: the rendezvous's wall clock. The fields are documented in docs/jobs.md.
std::string StatusToJson(const DaemonStatus& daemon, const std::vector<JobStatus>& jobs,
                         std::int64_t now_unix_ms);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_JSON_STATUS_JSON_H_
