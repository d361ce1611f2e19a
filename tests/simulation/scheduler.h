// The one clock of a simulation, and its queue of timed events. No threads, no real time.
#ifndef DDPRUN_TESTS_SIMULATION_SCHEDULER_H_
#define DDPRUN_TESTS_SIMULATION_SCHEDULER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun::sim {

// True time: nanoseconds since the simulation began. No process sees it: each reads the Clock of
// its machine.
using Time = std::int64_t;

constexpr Time kMillisecond = 1'000'000;
constexpr Time kSecond = 1'000'000'000;

class Scheduler {
 public:
  using Task = std::function<void()>;

  Time now() const { return now_; }
  std::uint64_t ran() const { return ran_; }

  // Tasks of the same time run in the order of these calls.
  void At(Time time, Task task) {
    heap_.push_back({std::max(time, now_), next_++, std::move(task)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  void After(Time delay, Task task) { At(now_ + delay, std::move(task)); }

  // False: no task is due until `end`.
  bool RunOne(Time end) {
    if (heap_.empty() || heap_.front().time > end) return false;
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Entry entry = std::move(heap_.back());
    heap_.pop_back();
    now_ = entry.time;
    ++ran_;
    entry.task();
    return true;
  }

 private:
  struct Entry {
    Time time;
    std::uint64_t order;
    Task task;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }

  Time now_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t ran_ = 0;
  std::vector<Entry> heap_;
};

// The steady clock of one machine. It has an offset from true time, and its rate is slightly wrong.
struct Clock {
  Time offset = 0;
  Time ppm = 0;  // how much faster than true time

  TimePoint Local(Time time) const {
    return TimePoint(std::chrono::nanoseconds(offset + time + time / 1'000'000 * ppm +
                                              time % 1'000'000 * ppm / 1'000'000));
  }
  // The first true time at which Local() is `local` or later. Integers only: the same everywhere.
  Time True(TimePoint local) const {
    Time time = (local - Local(0)).count();
    // Each error is at most a thirtieth of the previous one, as long as |ppm| is at most 30,000.
    for (Time error = 2; error > 1 || error < -1;) {
      error = (local - Local(time)).count();
      time += error;
    }
    while (Local(time - 1) >= local) --time;
    while (Local(time) < local) ++time;
    return time;
  }
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_SCHEDULER_H_
