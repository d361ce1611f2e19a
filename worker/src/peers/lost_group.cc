#include "worker/src/peers/lost_group.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace ddp::internal {
namespace {

// The state of one group. Its threads may outlive the group and the static objects of the process.
struct Fate {
  std::atomic<bool> lost{false};
  std::mutex mutex;
  std::condition_variable changed;
  bool told = false;             // guarded by mutex
  std::function<bool()> failed;  // guarded by mutex

  bool IsLost() {
    if (lost) return true;
    const std::lock_guard<std::mutex> lock(mutex);
    if (failed != nullptr && failed()) lost = true;
    return lost;
  }
  bool IsToldWithin(std::chrono::milliseconds time) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, time, [this] { return told; });
  }
};

// The newest group. Never destroyed, because GroupIsLost() may be called until the process ends.
struct Newest {
  std::mutex mutex;
  std::shared_ptr<Fate> fate = std::make_shared<Fate>();  // guarded by mutex
};

Newest& TheNewest() {
  static Newest* const newest = new Newest;
  return *newest;
}

std::shared_ptr<Fate> Current() {
  const std::lock_guard<std::mutex> lock(TheNewest().mutex);
  return TheNewest().fate;
}

void CarryOut(const std::shared_ptr<Fate>& fate, const LossPlan& plan) {
  if (fate->IsToldWithin(plan.grace)) return;
  std::thread([fate, abort = plan.abort] {
    try {
      abort();
    } catch (const std::exception&) {
      // Then plan.end() ends the process.
    }
  }).detach();
  if (!fate->IsToldWithin(plan.patience)) plan.end();
}

}  // namespace

void NoteNewGroup() {
  const std::lock_guard<std::mutex> lock(TheNewest().mutex);
  TheNewest().fate = std::make_shared<Fate>();
}

void ActWhenLost(RankFailureDetector* detector, LossPlan plan) {
  if (detector == nullptr || plan.abort == nullptr) return;
  detector->WatchForLoss([fate = Current(), plan = std::move(plan)] {
    fate->lost = true;  // first: a thread whose kernel ends must see that the group is lost
    std::thread([fate, plan] { CarryOut(fate, plan); }).detach();
  });
}

void WatchForFailure(std::function<bool()> failed) {
  const std::shared_ptr<Fate> fate = Current();
  const std::lock_guard<std::mutex> lock(fate->mutex);
  fate->failed = std::move(failed);
}

void NoteLeft() { Current()->lost = true; }

bool GroupIsLost() { return Current()->IsLost(); }

void NoteLossReported() {
  if (GroupIsLost()) NoteEnd();
}

void NoteEnd() {
  const std::shared_ptr<Fate> fate = Current();
  const std::lock_guard<std::mutex> lock(fate->mutex);
  fate->told = true;
  fate->failed = nullptr;
  fate->changed.notify_all();
}

}  // namespace ddp::internal
