#include "rendezvous/machine/states/timeline.h"

#include <algorithm>
#include <tuple>

namespace ddprun {
namespace {

// True if a generation of this run made the state.
bool IsOurs(const SavedState& state, std::uint32_t requeue_number, Generation newest) {
  return state.generation.value >= 0 &&
         std::tie(state.requeue_number, state.generation) <= std::tie(requeue_number, newest);
}

}  // namespace

Timeline::Timeline(const std::vector<ResumePoint>& points) {
  for (const ResumePoint& point : points) Resume(point);
}

void Timeline::Resume(const ResumePoint& point) {
  while (!points_.empty() && points_.back().step >= point.step) points_.pop_back();
  points_.push_back(point);
  if (points_.size() <= kMaxPoints) return;
  points_[1].step = points_[0].step;
  points_.erase(points_.begin());
}

bool Timeline::Holds(const SavedState& state, std::uint32_t requeue_number,
                     Generation newest) const {
  const bool ours = IsOurs(state, requeue_number, newest);
  // Steps increase, so the first later generation went back furthest.
  const auto later =
      std::partition_point(points_.begin(), points_.end(), [&](const ResumePoint& point) {
        return ours && std::tie(point.requeue_number, point.generation) <=
                           std::tie(state.requeue_number, state.generation);
      });
  return later == points_.end() || state.step <= later->step;
}

}  // namespace ddprun
