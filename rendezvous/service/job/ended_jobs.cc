#include "rendezvous/service/job/ended_jobs.h"

namespace ddprun {

void EndedJobs::Add(const JobPtr& job, TimePoint now) {
  const auto agents = static_cast<std::size_t>(job->machine.agent_count());
  entries_.push_back({now, job, agents});
  agents_ += agents;
}

JobPtr EndedJobs::TakeSurplus(TimePoint now) {
  const auto surplus = [&] {
    return entries_.size() > limits_.jobs || (agents_ > limits_.agents && entries_.size() > 1) ||
           entries_.front().at + limits_.time <= now;
  };
  while (!entries_.empty() && surplus()) {
    JobPtr job = entries_.front().job.lock();
    agents_ -= entries_.front().agents;
    entries_.pop_front();
    if (job != nullptr) return job;
  }
  return nullptr;
}

std::optional<TimePoint> EndedJobs::NextDeadline() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.front().at + limits_.time;
}

std::size_t EndedJobs::AwaitedAgents() const {
  std::size_t awaited = 0;
  for (const Entry& entry : entries_) {
    if (const JobPtr job = entry.job.lock()) awaited += job->machine.awaited();
  }
  return awaited;
}

}  // namespace ddprun
