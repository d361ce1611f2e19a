#include "launcher/connection/reconnect_timing.h"

#include <algorithm>

namespace ddprun {

void ReconnectTiming::OnHeard() {
  backoff_ = Duration::zero();
  attempt_limit_ = options_.shortest_attempt;
}

Duration ReconnectTiming::OnLost(bool refused) {
  if (!refused) attempt_limit_ = std::min(2 * attempt_limit_, options_.longest_attempt);
  const Duration whole = std::max(backoff_, options_.first_backoff);
  backoff_ = std::min(2 * whole, options_.longest_backoff);
  return Duration(
      std::uniform_int_distribution<Duration::rep>(whole.count() / 2, whole.count())(random_));
}

}  // namespace ddprun
