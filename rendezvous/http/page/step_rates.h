// StepRates: how fast a job's steps have followed each other, from samples of its newest step.
// Pure: time as an argument.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_STEP_RATES_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_STEP_RATES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun::http {

class StepRates {
 public:
  static constexpr std::chrono::seconds kInterval{5};
  static constexpr std::size_t kKept = 360;  // half an hour

  struct Point {
    TimePoint at;
    float per_second = 0;
  };

  // Steps that are lost in a restart count as none. A sample that comes sooner than kInterval after
  // the last one is left out.
  void Add(std::optional<std::int64_t> step, TimePoint now);

  // Over the last interval; nothing before there are two samples.
  std::optional<float> newest() const;
  // Oldest first.
  const std::deque<Point>& points() const { return points_; }

 private:
  std::optional<TimePoint> sampled_;
  std::int64_t step_ = 0;
  std::deque<Point> points_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_STEP_RATES_H_
