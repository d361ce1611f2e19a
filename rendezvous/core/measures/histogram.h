// Histogram of durations in seconds. A value; standard library only.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_HISTOGRAM_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "rendezvous/core/types.h"

namespace ddprun {

class Histogram {
 public:
  // Upper bounds of the buckets, in seconds: from a group commit to a cold start of a large job.
  static constexpr std::array<double, 9> kBounds = {0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 60};

  void Add(Duration took) {
    const double seconds = std::max(std::chrono::duration<double>(took).count(), 0.0);
    const auto* const bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
    ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
    ++count_;
    sum_ += seconds;
  }

  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  // The number of durations up to kBounds[bucket].
  std::uint64_t CountUpTo(std::size_t bucket) const {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i <= bucket; ++i) count += counts_[i];
    return count;
  }

  bool operator==(const Histogram&) const = default;

 private:
  std::array<std::uint64_t, kBounds.size() + 1> counts_{};  // the last one: above all bounds
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_HISTOGRAM_H_
