#include "launcher/text/top/rates.h"

#include <utility>

namespace ddprun::top {
namespace {

constexpr std::chrono::seconds kWindow{10};
constexpr std::chrono::milliseconds kLeast{900};  // less says little: steps come with heartbeats

}  // namespace

void Rates::Take(const Snapshot& snapshot, TimePoint now) {
  std::map<std::string, std::deque<Sample>> kept;
  for (const JobRow& job : snapshot.jobs) {
    if (job.over() || !job.step) continue;
    std::deque<Sample> samples = std::move(samples_[job.job]);
    // Another generation goes on from an older step.
    if (!samples.empty() && samples.back().generation != job.generation) samples.clear();
    samples.push_back({now, job.generation, *job.step});
    while (samples.size() > 2 && samples[1].time <= now - kWindow) samples.pop_front();
    kept[job.job] = std::move(samples);
  }
  samples_ = std::move(kept);
}

std::optional<double> Rates::Of(const JobRow& job) const {
  const auto found = samples_.find(job.job);
  if (found == samples_.end()) return std::nullopt;
  const Sample& first = found->second.front();
  const Sample& last = found->second.back();
  if (last.time - first.time < kLeast) return std::nullopt;
  return static_cast<double>(last.step - first.step) /
         std::chrono::duration<double>(last.time - first.time).count();
}

}  // namespace ddprun::top
