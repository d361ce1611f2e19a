// Steps per second of jobs, from the steps that a rendezvous tells now and then. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_RATES_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_RATES_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "launcher/text/top/snapshot.h"

namespace ddprun::top {

class Rates {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Jobs that are not in `snapshot` are forgotten.
  void Take(const Snapshot& snapshot, TimePoint now);

  // Over the last 10 s; nullopt: not known yet, or the job is over.
  std::optional<double> Of(const JobRow& job) const;

 private:
  struct Sample {
    TimePoint time;
    int generation = 0;
    std::int64_t step = 0;
  };
  std::map<std::string, std::deque<Sample>> samples_;  // by job
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_RATES_H_
