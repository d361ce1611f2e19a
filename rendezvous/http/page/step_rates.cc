#include "rendezvous/http/page/step_rates.h"

#include <algorithm>

namespace ddprun::http {

void StepRates::Add(std::optional<std::int64_t> step, TimePoint now) {
  const std::int64_t here = step.value_or(0);
  if (sampled_) {
    // A timer that comes a little early is no reason to leave a sample out.
    if (now - *sampled_ < kInterval * 9 / 10) return;
    const auto seconds = std::chrono::duration<float>(now - *sampled_).count();
    const auto steps = static_cast<float>(std::max<std::int64_t>(here - step_, 0));
    points_.push_back({now, steps / seconds});
    if (points_.size() > kKept) points_.pop_front();
  }
  sampled_ = now;
  step_ = here;
}

std::optional<float> StepRates::newest() const {
  if (points_.empty()) return std::nullopt;
  return points_.back().per_second;
}

}  // namespace ddprun::http
