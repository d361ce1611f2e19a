#include "rendezvous/auth/refusal_counters.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

constexpr std::chrono::minutes kLogAgainAfter{1};

bool IsPowerOfTwo(std::uint64_t number) { return (number & (number - 1)) == 0; }

}  // namespace

RefusalCounters::RefusalCounters(Log log) : log_(std::move(log)) {}

void RefusalCounters::Count(std::string_view reason, std::string_view detail,
                            Clock::time_point now) {
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    auto entry = entries_.find(reason);
    if (entry == entries_.end()) entry = entries_.emplace(std::string(reason), Entry{}).first;
    const std::uint64_t count = ++entry->second.count;
    if (!log_) return;
    if (!IsPowerOfTwo(count) && now < entry->second.logged + kLogAgainAfter) return;
    entry->second.logged = now;
    line = absl::StrCat("refused ", std::string(detail), " (", std::string(reason), ", number ",
                        count, ")");
  }
  log_(line);
}

std::map<std::string, std::uint64_t> RefusalCounters::Snapshot() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [reason, entry] : entries_) counts[reason] = entry.count;
  return counts;
}

}  // namespace ddprun
