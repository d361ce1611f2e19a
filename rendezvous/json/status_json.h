// What a rendezvous and its jobs look like now, as JSON, for `ddprun status`. Pure.
#ifndef DDPRUN_RENDEZVOUS_JSON_STATUS_JSON_H_
#define DDPRUN_RENDEZVOUS_JSON_STATUS_JSON_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rendezvous/core/job_status.h"

namespace ddprun {

// Of the rendezvous itself.
struct DaemonStatus {
  std::string version;
  Duration uptime{};
  std::size_t sessions = 0;
  std::size_t jobs_begun = 0;                    // since the start
  int descriptors = 0;                           // open now, at least; 0: not known
  int descriptor_limit = 0;                      // above which agents are refused
  std::size_t event_lines_dropped = 0;           // that the event file did not take
  std::map<std::string, std::uint64_t> refused;  // by reason, since the start
};

// One job, with its nodes.
nlohmann::ordered_json ToJson(const JobStatus& job, std::int64_t now_unix_ms);

// `now_unix_ms`: the rendezvous's wall clock. The fields are documented in docs/operations.md.
std::string StatusToJson(const DaemonStatus& daemon, const std::vector<JobStatus>& jobs,
                         std::int64_t now_unix_ms);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_JSON_STATUS_JSON_H_
