// An event as one line of JSON, for `ddprun events` and the event file. Pure.
#ifndef DDPRUN_RENDEZVOUS_JSON_EVENT_JSON_H_
#define DDPRUN_RENDEZVOUS_JSON_EVENT_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/core/job_event.h"

namespace ddprun {

// Without the newline. Members: time, job, owner (if there is one), epoch (the requeue number),
// generation, event; then the members of this kind of event. `unix_ms`: the rendezvous's time.
std::string EventToJson(std::int64_t unix_ms, std::string_view job, std::string_view owner,
                        std::uint32_t requeue_number, const JobEvent& event);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_JSON_EVENT_JSON_H_
