#include "rendezvous/hangs/stack_collection.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"

namespace ddprun {
namespace {

// bytes_ adds up what the nodes sent, so frames that nodes have in common count several times.
// Above the first limit the tree is measured, and made smaller if it has more than the second. The
// second is far above what equal ranks need: nodes answer in any order, so their ranks are many
// ranges, and 131,072 ranks that wait alike take 2 MiB. A verdict needs all of that.
constexpr std::size_t kMeasureAbove = 32 * kMaxStackTreeBytes;
constexpr std::size_t kMostKept = 16 * kMaxStackTreeBytes;

}  // namespace

void StackCollection::Await(AgentId node, std::string host, RankRange ranks) {
  awaited_[node.value] = {std::move(host), ranks};
  to_ask_.push_back(node);
}

std::vector<AgentId> StackCollection::TakeToAsk(TimePoint now) {
  std::vector<AgentId> nodes;
  if (now < ask_at_) return nodes;
  while (!to_ask_.empty() && nodes.size() < pace_.at_once) {
    nodes.push_back(to_ask_.front());
    to_ask_.pop_front();
  }
  ask_at_ = now + pace_.pause;
  return nodes;
}

TimePoint StackCollection::NextDeadline() const {
  if (complete()) return TimePoint::min();
  return to_ask_.empty() ? deadline_ : std::min(deadline_, ask_at_);
}

absl::Status StackCollection::Take(AgentId node, const EncodedStackTree& tree) {
  const auto asked = awaited_.find(node.value);
  absl::Status status = StackTree::Check(tree);
  if (status.ok()) {
    RankSet own;
    own.Add(asked->second.ranks);
    const RankSet others = RanksOf(tree).Minus(own);
    if (!others.empty()) {
      status = absl::InvalidArgumentError("a tree of stacks with ranks of another node: " +
                                          others.ToString(4));
    }
  }
  if (!status.ok()) {
    GiveUp(node);
    return status;
  }
  awaited_.erase(asked);
  recent_.Merge(tree);
  bytes_ += WireBytes(tree);
  const bool large = bytes_ > kMeasureAbove;
  if (++recent_trees_ == kBatch || large) MergeRecent();
  if (large) Compact();
  return status;
}

void StackCollection::MergeRecent() {
  tree_.Merge(std::exchange(recent_, {}));
  recent_trees_ = 0;
}

void StackCollection::Conclude() { MergeRecent(); }

void StackCollection::GiveUp(AgentId node) {
  const auto asked = awaited_.find(node.value);
  if (asked == awaited_.end()) return;
  given_up_.push_back(std::move(asked->second.host));
  awaited_.erase(asked);
}

void StackCollection::Compact() {
  bytes_ = tree_.wire_bytes();
  if (bytes_ <= kMostKept) return;
  absl::StatusOr<StackTree> smaller = StackTree::Decode(tree_.Encode(kMostKept), kMostKept);
  if (smaller.ok()) tree_ = *std::move(smaller);  // always: Encode() makes what Decode() takes
  bytes_ = tree_.wire_bytes();
}

std::vector<std::string> StackCollection::Missing() const {
  std::vector<std::string> hosts = given_up_;
  for (const auto& [node, asked] : awaited_) hosts.push_back(asked.host);
  std::sort(hosts.begin(), hosts.end());
  return hosts;
}

}  // namespace ddprun
