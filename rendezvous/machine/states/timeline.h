// Timeline: at which step each generation resumed, and so which states are still of this training.
//
//     generation 0   0 ───────────▶ 500 ─ ─ ─ ▶ 560
//     generation 1                   └──────────────────▶ 900 ─ ─ ▶ 930
//     generation 2                                         └─────────────▶
//
// What generation 0 did past step 500, where its successor resumed, was done again by others: a
// state of it, on a node that comes back, is of a dead timeline and must not be loaded. Pure.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STATES_TIMELINE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STATES_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct ResumePoint {
  std::uint32_t requeue_number = 0;
  Generation generation;
  std::int64_t step = 0;

  bool operator==(const ResumePoint&) const = default;
};

class Timeline {
 public:
  // Where more are needed, the oldest are merged: of generations that long ago a state may be taken
  // for dead that is not, never the other way round.
  static constexpr std::size_t kMaxPoints = 64;

  Timeline() = default;
  explicit Timeline(const std::vector<ResumePoint>& points);

  // The workers of a generation may have begun with the state of this step. In the order of the
  // generations; to say it again changes nothing.
  void Resume(const ResumePoint& point);

  // No later generation resumed at a step before it: of two states that are held, the one of the
  // higher step has more of the training. `newest` is the newest generation of this life: a state
  // that names a later one, or none, was made by an earlier run under the same name, before all.
  bool Holds(const SavedState& state, std::uint32_t requeue_number, Generation newest) const;

  // What has to be remembered, oldest first; the steps increase: a generation that went back
  // further than those before it makes them irrelevant.
  const std::vector<ResumePoint>& points() const { return points_; }

 private:
  std::vector<ResumePoint> points_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STATES_TIMELINE_H_
