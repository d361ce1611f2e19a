// Timeline: the step at which each generation resumed, and which states therefore belong to the
// training.
//
//     generation 0   0 ───────────▶ 500 ─ ─ ─ ▶ 560
//     generation 1                   └──────────────────▶ 900 ─ ─ ▶ 930
//     generation 2                                         └─────────────▶
//
// Generation 1 resumed at step 500 and made the later steps again. So a state that generation 0
// made after step 500 belongs to a dead timeline. A node that comes back may still hold such a
// state; it must not be loaded. Pure.
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
  // If there are more, the oldest points are merged. A living state of such an old generation may
  // then count as dead; a dead state never counts as living.
  static constexpr std::size_t kMaxPoints = 64;

  Timeline() = default;
  explicit Timeline(const std::vector<ResumePoint>& points);

  // The workers of a generation may have begun with the state of this step. Call it in the order of
  // the generations; a repeated call changes nothing.
  void Resume(const ResumePoint& point);

  // True if no later generation resumed before this state. Of two such states, the state with the
  // higher step has more of the training. `newest`: the newest generation of this life. A state of
  // a later generation, or of none, is from an earlier run of the same name. It counts as older
  // than all others.
  bool Holds(const SavedState& state, std::uint32_t requeue_number, Generation newest) const;

  // The points that matter, oldest first. Their steps increase: if a generation resumes at a lower
  // step than earlier generations, the points of those generations no longer matter.
  const std::vector<ResumePoint>& points() const { return points_; }

 private:
  std::vector<ResumePoint> points_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STATES_TIMELINE_H_
