// The record of a run: one hash over all events, and on demand a line of text for each event.
#ifndef DDPRUN_TESTS_SIMULATION_RECORDER_H_
#define DDPRUN_TESTS_SIMULATION_RECORDER_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/simulation/scheduler.h"

namespace ddprun::sim {

class Recorder {
 public:
  Recorder(const Scheduler* scheduler, std::string* text) : scheduler_(scheduler), text_(text) {}

  bool tracing() const { return text_ != nullptr; }
  std::uint64_t hash() const { return hash_; }

  // Adds an event of kind `what`, with the numbers that identify it.
  void Event(std::uint64_t what, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0) {
    Mix(static_cast<std::uint64_t>(scheduler_->now()));
    Mix(what);
    Mix(a);
    Mix(b);
    Mix(c);
  }
  // Does nothing without a trace. Check tracing() before you build a long text.
  void Line(const std::string& line) {
    if (text_ == nullptr) return;
    char time[32];
    std::snprintf(time, sizeof time, "%10.6f ", static_cast<double>(scheduler_->now()) / 1e9);
    absl::StrAppend(text_, time, line, "\n");
  }

 private:
  void Mix(std::uint64_t value) {
    hash_ = (hash_ ^ value) * 0x100000001b3;
    hash_ ^= hash_ >> 29;
  }

  const Scheduler* const scheduler_;  // outlives this
  std::string* const text_;           // nullptr: no trace; outlives this
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_RECORDER_H_
