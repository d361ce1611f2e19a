// The clock for the parts of the page that take the time as an argument.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_CLOCK_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_CLOCK_H_

#include <chrono>

#include "rendezvous/core/types.h"

namespace ddprun::http {

inline TimePoint Now() { return std::chrono::steady_clock::now(); }

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_CLOCK_H_
