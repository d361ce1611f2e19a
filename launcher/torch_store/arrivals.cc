#include "launcher/torch_store/arrivals.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace ddprun::torch_store {
namespace {

constexpr absl::string_view kClientKey = "init/";
constexpr absl::string_view kRankKeys[] = {"/rank_", "/joined/"};

// The rank that set this key.
std::optional<int> RankOf(absl::string_view key) {
  for (const absl::string_view before : kRankKeys) {
    const std::size_t at = key.rfind(before);
    int rank = 0;
    if (at != key.npos && absl::SimpleAtoi(key.substr(at + before.size()), &rank) && rank >= 0 &&
        rank < Arrivals::kMaxRanks) {
      return rank;
    }
  }
  return std::nullopt;
}

}  // namespace

bool Arrivals::See(const Request& request) {
  if (request.texts.empty()) return false;
  if (request.operation == Operation::kAdd) {
    if (request.number != 1 || request.texts[0] != kClientKey || clients_ >= kMaxRanks) {
      return false;
    }
    ++clients_;
    return true;
  }
  if (request.operation != Operation::kSet) return false;
  const std::optional<int> rank = RankOf(request.texts[0]);
  if (!rank) return false;
  const auto index = static_cast<std::size_t>(*rank);
  if (ranks_.size() <= index) ranks_.resize(index + 1);
  if (ranks_[index]) return false;
  ranks_[index] = true;
  ++known_;
  return true;
}

int Arrivals::count(int world_size) const {
  return std::min(known_ > 0 ? known_ : clients_, world_size);
}

std::optional<std::vector<int>> Arrivals::Missing(int world_size, std::size_t most) const {
  if (known_ == 0) return std::nullopt;
  std::vector<int> missing;
  for (int rank = 0; rank < world_size && missing.size() < most; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (index >= ranks_.size() || !ranks_[index]) missing.push_back(rank);
  }
  return missing;
}

}  // namespace ddprun::torch_store
