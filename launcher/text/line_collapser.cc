#include "launcher/text/line_collapser.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kGroupOverhead = 256;  // approximate cost of a held line besides its text

std::size_t Cost(const LineCollapser::Group& group) {
  return 2 * group.line.size() + kGroupOverhead;  // the text is stored twice
}

}  // namespace

void LineCollapser::Enter(int source) { sources_[source].there = true; }

void LineCollapser::Leave(int source) { sources_[source].there = false; }

void LineCollapser::Add(int source, std::string_view line, Time now) {
  Source& from = sources_[source];
  std::string text(line);
  std::vector<std::int64_t>& numbers = numbers_[text];
  // The oldest group after this source's latest line.
  const auto number = std::upper_bound(numbers.begin(), numbers.end(), from.last);
  if (number != numbers.end()) {
    from.last = *number;
    std::vector<int>& in = held_[static_cast<std::size_t>(*number - first_held_)].group.sources;
    in.insert(std::lower_bound(in.begin(), in.end(), source), source);
    return;
  }
  from.last = first_held_ + static_cast<std::int64_t>(held_.size());
  numbers.push_back(from.last);
  held_.push_back({{{source}, std::move(text)}, now + hold_});
  held_bytes_ += Cost(held_.back().group);
}

std::vector<LineCollapser::Group> LineCollapser::Take(Time now) {
  const std::int64_t passed = LastThatAllHavePassed();
  std::vector<Group> groups;
  while (!held_.empty() &&
         (first_held_ <= passed || held_.front().deadline <= now || held_bytes_ > kMaxHeldBytes)) {
    groups.push_back(TakeFirst());
  }
  return groups;
}

std::vector<LineCollapser::Group> LineCollapser::TakeAll() {
  std::vector<Group> groups;
  while (!held_.empty()) groups.push_back(TakeFirst());
  return groups;
}

std::optional<LineCollapser::Time> LineCollapser::NextDeadline() const {
  if (held_.empty()) return std::nullopt;
  return held_.front().deadline;
}

std::int64_t LineCollapser::LastThatAllHavePassed() const {
  std::int64_t passed = std::numeric_limits<std::int64_t>::max();
  for (const auto& [id, source] : sources_) {
    if (source.there) passed = std::min(passed, source.last);
  }
  return passed;
}

LineCollapser::Group LineCollapser::TakeFirst() {
  Group group = std::move(held_.front().group);
  held_.pop_front();
  ++first_held_;
  held_bytes_ -= Cost(group);
  const auto numbers = numbers_.find(group.line);
  numbers->second.erase(numbers->second.begin());
  if (numbers->second.empty()) numbers_.erase(numbers);
  return group;
}

}  // namespace ddprun
