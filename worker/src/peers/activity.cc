#include "worker/src/peers/activity.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "worker/src/agent/parameter_watch.h"
#include "worker/src/agent/progress.h"

namespace ddp::internal {
namespace {

using std::chrono::steady_clock;

enum class Phase { kStart, kForward, kAwaitsBackward, kBackward, kBetweenSteps };

struct Place {
  std::mutex mutex;
  // Guarded by mutex.
  Phase phase = Phase::kStart;
  std::int64_t step = 0;
  steady_clock::time_point since = steady_clock::now();
  std::string collective;  // empty: none
  steady_clock::time_point collective_since;
  std::string last_collective;

  // Read without the mutex: the hook of each gradient reads it, and most gradients are not the
  // first.
  std::atomic<bool> awaits_backward{false};

  std::atomic<std::int64_t> nanoseconds_in_collectives{0};
};

// Never destroyed, because another rank may ask until the process ends.
Place& TheProcess() {
  static Place* const place = new Place;
  return *place;
}

void Enter(Phase phase, std::int64_t step = -1) {
  Place& place = TheProcess();
  const std::lock_guard<std::mutex> lock(place.mutex);
  place.phase = phase;
  if (step >= 0) place.step = step;
  place.since = steady_clock::now();
  place.awaits_backward = phase == Phase::kAwaitsBackward;
  Progress::Process().Move();
}

std::string Words(const Place& place) {
  const std::string step = std::to_string(place.step);
  switch (place.phase) {
    case Phase::kForward:
      return "is in forward of step " + step;
    case Phase::kAwaitsBackward:
      return "has not begun backward of step " + step + " since its forward ended";
    case Phase::kBackward:
      return "is in backward of step " + step;
    case Phase::kBetweenSteps:
      return "has finished backward of step " + step + " and is outside of collectives";
    case Phase::kStart:
      break;
  }
  if (place.last_collective.empty()) return "has not entered a collective yet";
  return "is outside of collectives, after " + place.last_collective;
}

}  // namespace

Activity CurrentActivity() {
  Place& place = TheProcess();
  const std::lock_guard<std::mutex> lock(place.mutex);
  const bool collective = !place.collective.empty();
  const auto since = collective ? place.collective_since : place.since;
  return {collective ? "is in " + place.collective : Words(place),
          std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - since)};
}

void EnterForward(std::int64_t step) { Enter(Phase::kForward, step); }
void LeaveForward() { Enter(Phase::kAwaitsBackward); }
bool AwaitsBackward() { return TheProcess().awaits_backward.load(std::memory_order_relaxed); }

void EnterBackward() {
  if (AwaitsBackward()) Enter(Phase::kBackward);
}

void LeaveBackward() {
  Enter(Phase::kBetweenSteps);
  ParameterWatch::Process().GradientsAreAveraged();
  Progress::Process().FinishBackward();
}

InCollective::InCollective(const std::string& name) {
  Place& place = TheProcess();
  const std::lock_guard<std::mutex> lock(place.mutex);
  place.collective = name;
  place.collective_since = steady_clock::now();
  Progress::Process().Move();
}

InCollective::~InCollective() {
  Place& place = TheProcess();
  const std::lock_guard<std::mutex> lock(place.mutex);
  AddTimeInCollectives(steady_clock::now() - place.collective_since);
  place.last_collective.swap(place.collective);
  place.collective.clear();
  if (place.phase == Phase::kStart) place.since = steady_clock::now();
  Progress::Process().Move();
}

std::chrono::nanoseconds TimeInCollectives() {
  return std::chrono::nanoseconds(
      TheProcess().nanoseconds_in_collectives.load(std::memory_order_relaxed));
}

void AddTimeInCollectives(std::chrono::nanoseconds time) {
  TheProcess().nanoseconds_in_collectives.fetch_add(time.count(), std::memory_order_relaxed);
}

}  // namespace ddp::internal
