// StepRates: a job's steps per second over the last half hour, sampled from its status. Pure: time
// comes in as an argument.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_STEP_RATES_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_STEP_RATES_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

#include "rendezvous/core/types.h"

namespace ddprun::http {

class StepRates {
 public:
  static constexpr std::chrono::seconds kInterval{5};
  static constexpr std::size_t kKept = 360;  // half an hour

  struct Point {
    TimePoint at;
    double per_second = 0;
  };

  // `per_second`: JobStatus::Measured::steps_per_second. An unknown value counts as 0, because no
  // steps are reported; before the first known value it is left out. A value is also left out if it
  // comes sooner than 90 % of kInterval after the last value.
  void Add(std::optional<double> per_second, TimePoint now);

  // Oldest first.
  const std::deque<Point>& points() const { return points_; }

 private:
  std::deque<Point> points_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_STEP_RATES_H_
