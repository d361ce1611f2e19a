// StepRate: the steps per second of a generation, averaged over the last 15 to 30 s; at first over
// less. A standstill lowers it at once. A value; the time is an argument.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_STEP_RATE_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_STEP_RATE_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "rendezvous/core/types.h"

namespace ddprun {

class StepRate {
 public:
  static constexpr Duration kWindow = std::chrono::seconds(15);
  static constexpr Duration kLeast = std::chrono::seconds(1);  // a shorter time gives no rate

  // Takes the highest step of all ranks, known at `now`. Never lower than before.
  void Take(std::int64_t step, TimePoint now) {
    const Mark mark{step, now};
    if (!from_) from_ = next_ = mark;
    if (now - next_.at >= kWindow) {
      from_ = next_;
      next_ = mark;
    }
    step_ = step;
  }

  // nullopt: no step was reported, or the average would cover less than kLeast.
  std::optional<double> At(TimePoint now) const {
    if (!from_ || now - from_->at < kLeast) return std::nullopt;
    const double seconds = std::chrono::duration<double>(now - from_->at).count();
    return static_cast<double>(step_ - from_->step) / seconds;
  }

 private:
  struct Mark {
    std::int64_t step = 0;
    TimePoint at{};
  };
  std::optional<Mark> from_;  // the average begins here
  Mark next_;                 // the next begin of the average, kWindow after the first
  std::int64_t step_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_STEP_RATE_H_
