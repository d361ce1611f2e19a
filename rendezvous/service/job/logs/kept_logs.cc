#include "rendezvous/service/job/logs/kept_logs.h"

#include <algorithm>

namespace ddprun {
namespace {

bool IsOfAWorker(const RootCause& cause) {
  return cause.kind == RootCause::Kind::kWorkerFailed ||
         cause.kind == RootCause::Kind::kWorkerLeftEarly || cause.kind == RootCause::Kind::kHung;
}

// An unfinished line at the end is a line.
std::size_t StartOfLastLines(std::string_view text, std::int64_t lines) {
  std::size_t start = text.size();
  for (; lines > 0 && start > 0; --lines) {
    const std::size_t before = start < 2 ? std::string_view::npos : text.rfind('\n', start - 2);
    start = before == std::string_view::npos ? 0 : before + 1;
  }
  return start;
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

std::optional<KeptLogs::Part> KeptLogs::Find(const LogSource& source, const LogSpan& span) const {
  const auto found = texts_.find(source);
  if (found == texts_.end()) return std::nullopt;
  const std::string_view text = found->second;
  const std::size_t start = span.lines ? StartOfLastLines(text, *span.lines) : 0;
  return Part{text.substr(start), start > 0 || text.size() < kMaxBytes};
}

}  // namespace ddprun
