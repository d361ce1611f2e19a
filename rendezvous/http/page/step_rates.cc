#include "rendezvous/http/page/step_rates.h"

namespace ddprun::http {

void StepRates::Add(std::optional<double> per_second, TimePoint now) {
  if (points_.empty() && !per_second) return;
  // Tolerates a timer that fires a little early.
  if (!points_.empty() && now - points_.back().at < Duration(kInterval) * 9 / 10) return;
  points_.push_back({now, per_second.value_or(0)});
  if (points_.size() > kKept) points_.pop_front();
}

}  // namespace ddprun::http
