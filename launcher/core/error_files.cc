#include "launcher/core/error_files.h"

#include <utility>

namespace ddprun {

void ErrorFiles::Begin(Generation generation, Rank first_rank) {
  generation_ = generation;
  first_rank_ = first_rank;
  content_.clear();
}

void ErrorFiles::Add(Generation generation, LocalRank local_rank, std::string content) {
  if (generation == generation_) content_[local_rank.value] = std::move(content);
}

std::string ErrorFiles::Of(const RootCause& cause) const {
  const bool of_worker = cause.kind == RootCause::Kind::kWorkerFailed;
  if (!of_worker || cause.failure.generation != generation_) return "";
  const auto found = content_.find(cause.failure.exit.rank.value - first_rank_.value);
  return found == content_.end() ? "" : found->second;
}

}  // namespace ddprun
