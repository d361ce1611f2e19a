// StepRate: how many steps a second a generation makes now, averaged over the last 15 to 30 s. A
// standstill lowers it at once. A value; the time comes in.
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
  static constexpr Duration kLeast = std::chrono::seconds(1);  // less says nothing

  // The newest step of all ranks, as known at `now`. Never lower than before.
  void Take(std::int64_t step, TimePoint now) {
    const Mark mark{step, now};
    if (!from_) from_ = next_ = mark;
    if (now - next_.at >= kWindow) {
      from_ = next_;
      next_ = mark;
    }
    step_ = step;
  }

  // nullopt: no step was told yet, or only a moment ago.
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
  Mark next_;                 // and here, once the window after it is over
  std::int64_t step_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_STEP_RATE_H_
