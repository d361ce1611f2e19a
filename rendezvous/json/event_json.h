// A line of history as JSON, for `ddprun events` and the event file. Pure.
#ifndef DDPRUN_RENDEZVOUS_JSON_EVENT_JSON_H_
#define DDPRUN_RENDEZVOUS_JSON_EVENT_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/core/job_event.h"

namespace ddprun {

// One line, without the newline: time, job, owner (where there is one), requeue number, generation,
// event, and what the event has beside them. `unix_ms` is the rendezvous's time.
std::string EventToJson(std::int64_t unix_ms, std::string_view job, std::string_view owner,
                        std::uint32_t requeue_number, const JobEvent& event);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_JSON_EVENT_JSON_H_
