// StepRates: how fast a job's steps have followed each other in the last half hour, as the status
// of the job said at each moment. Pure: time as an argument.
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

  // JobStatus::Measured::steps_per_second. Where it is not known, nobody trains: 0, but nothing
  // before the first that is. One that comes sooner than kInterval after the last is left out.
  void Add(std::optional<double> per_second, TimePoint now);

  // Oldest first.
  const std::deque<Point>& points() const { return points_; }

 private:
  std::deque<Point> points_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_STEP_RATES_H_
