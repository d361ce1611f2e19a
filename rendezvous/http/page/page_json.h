// The JSON that the page receives: the list of jobs, and one job. Pure. docs/page.md lists the
// fields.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_PAGE_JSON_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_PAGE_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rendezvous/core/job_status.h"
#include "rendezvous/core/types.h"
#include "rendezvous/http/page/generation_history.h"
#include "rendezvous/http/page/step_rates.h"
#include "rendezvous/json/status_json.h"

namespace ddprun::http {

// A job's past, which JobStatus does not contain.
struct JobPast {
  std::string owner;  // from its newest event
  StepRates rates;
  GenerationHistory generations;
  int absences = 0;  // consecutive samples without this job
};

struct PageTime {
  TimePoint now;
  std::int64_t unix_ms = 0;
};

nlohmann::ordered_json DaemonJson(const DaemonStatus& daemon);

// One entry of the list. `job` may lack its nodes; `nodes`: their number, with spares.
nlohmann::ordered_json ListedJob(const JobStatus& job, int nodes, const JobPast& past);

// One job in full. Nodes are stored as columns, so that 16,384 of them take less than 1 MiB.
nlohmann::ordered_json WholeJob(JobStatus job, const JobPast& past, PageTime time, bool redacted);

// Removes ages, times and rates, which change even if nothing happens. If two results are equal,
// sending the second can wait (View::kIdleInterval).
nlohmann::ordered_json WithoutAges(nlohmann::ordered_json json);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_PAGE_JSON_H_
