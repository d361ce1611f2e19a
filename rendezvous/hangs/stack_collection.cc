#include "rendezvous/hangs/stack_collection.h"

#include <algorithm>
#include <utility>

namespace ddprun {
void StackCollection::Await(AgentId node, std::string host, RankRange ranks) {
  awaited_[node.value] = {std::move(host), ranks};
  to_ask_.push_back(node);
}

std::vector<AgentId> StackCollection::TakeToAsk(TimePoint now) {
  std::vector<AgentId> nodes;
  if (now < ask_at_) return nodes;
  ask_at_ = now + pace_.pause;
  if (waiting_ >= pace_.most_waiting) return nodes;
  while (!to_ask_.empty() && nodes.size() < pace_.at_once) {
    nodes.push_back(to_ask_.front());
    to_ask_.pop_front();
  }
  return nodes;
}

TimePoint StackCollection::NextDeadline() const {
  if (complete()) return TimePoint::min();
  return to_ask_.empty() ? deadline_ : std::min(deadline_, ask_at_);
}

StackCollection::Asked StackCollection::Answered(AgentId node) {
  const auto asked = awaited_.find(node.value);
  Asked answered = std::move(asked->second);
  awaited_.erase(asked);
  ++waiting_;
  return answered;
}

void StackCollection::GiveUp(AgentId node) {
  const auto asked = awaited_.find(node.value);
  if (asked == awaited_.end()) return;
  without_.push_back(std::move(asked->second.host));
  awaited_.erase(asked);
}

std::vector<std::string> StackCollection::Missing() const {
  std::vector<std::string> hosts = without_;
  for (const auto& [node, asked] : awaited_) hosts.push_back(asked.host);
  std::sort(hosts.begin(), hosts.end());
  return hosts;
}

}  // namespace ddprun
