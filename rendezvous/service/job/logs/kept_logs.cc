#include "rendezvous/service/job/logs/kept_logs.h"

#include <algorithm>

namespace ddprun {
namespace {

bool IsOfAWorker(const RootCause& cause) {
  return cause.kind == RootCause::Kind::kWorkerFailed ||
         cause.kind == RootCause::Kind::kWorkerLeftEarly || cause.kind == RootCause::Kind::kHung;
}

}  // namespace

const std::vector<Rank>& KeptLogs::Begin(const RootCause& cause) {
  Clear();
  generation_ = cause.failure.generation;
  if (IsOfAWorker(cause)) ranks_.push_back(cause.failure.exit.rank);
  for (const WorkerFailure& victim : cause.victims) {
    if (ranks_.size() == kMaxRanks) break;
    const Rank rank = victim.exit.rank;
    if (std::find(ranks_.begin(), ranks_.end(), rank) == ranks_.end()) ranks_.push_back(rank);
  }
  return ranks_;
}

void KeptLogs::Add(const LogSource& source, std::string_view text) {
  if (source.generation != generation_) return;  // a later generation has ended meanwhile
  std::string& kept = texts_[source];
  bytes_ -= kept.size();
  kept.append(text);
  if (kept.size() > kMaxBytes) kept.erase(0, kept.size() - kMaxBytes);
  bytes_ += kept.size();
}

const std::string* KeptLogs::Find(const LogSource& source) const {
  const auto found = texts_.find(source);
  return found == texts_.end() ? nullptr : &found->second;
}

}  // namespace ddprun
