// What the page is told of jobs, as JSON: the list, and one job. Pure. docs/page.md has the fields.
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

// What the page knows of a job beside its state.
struct JobPast {
  std::string owner;  // of its newest line of history
  StepRates rates;
  GenerationHistory generations;
  int absences = 0;  // samples in a row in which there was no such job
};

struct PageTime {
  TimePoint now;
  std::int64_t unix_ms = 0;
};

nlohmann::ordered_json DaemonJson(const DaemonStatus& daemon);

// One entry of the list. `job` needs no nodes; `nodes`: how many there are.
nlohmann::ordered_json ListedJob(const JobStatus& job, int nodes, const JobPast& past);

// The whole job; its nodes as columns, so that 16,384 of them take less than 1 MiB.
nlohmann::ordered_json WholeJob(JobStatus job, const JobPast& past, PageTime time, bool redacted);

// Without what changes by the mere passing of time: two that are equal need not both be sent.
nlohmann::ordered_json WithoutAges(nlohmann::ordered_json json);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_PAGE_JSON_H_
