#include "rendezvous/machine/nodes/roster.h"

#include <algorithm>
#include <utility>

#include "rendezvous/core/check.h"

namespace ddprun {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool NaturalLess(const std::string& a, const std::string& b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!IsDigit(a[i]) || !IsDigit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    // Compares two numbers: without leading zeros, the longer one is greater.
    while (i < a.size() && a[i] == '0') ++i;
    while (j < b.size() && b[j] == '0') ++j;
    std::size_t i_end = i;
    std::size_t j_end = j;
    while (i_end < a.size() && IsDigit(a[i_end])) ++i_end;
    while (j_end < b.size() && IsDigit(b[j_end])) ++j_end;
    if (i_end - i != j_end - j) return i_end - i < j_end - j;
    const int order = a.compare(i, i_end - i, b, j, j_end - j);
    if (order != 0) return order < 0;
    i = i_end;
    j = j_end;
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;  // equal, or different only in leading zeros
}

Node* Roster::Find(AgentId agent_id) {
  const auto found = entries_.find(agent_id.value);
  return found == entries_.end() ? nullptr : &*found->second.node;
}

const Node* Roster::HolderOf(NodeRank rank) const {
  const auto found = claimants_.find(rank.value);
  if (found == claimants_.end()) return nullptr;
  const auto live = std::find_if(found->second.begin(), found->second.end(),
                                 [](const Node* node) { return !node->suspect; });
  return live == found->second.end() ? nullptr : *live;
}

std::vector<Node*> Roster::WaitingForRankOf(const Node& node) const {
  if (!node.spec.requested_rank) return {};
  const std::vector<Node*>& all = claimants_.at(node.spec.requested_rank->value);
  return {std::next(std::find(all.begin(), all.end(), &node)), all.end()};
}

void Roster::Claim(Node& node) {
  if (!node.spec.requested_rank) return;
  std::vector<Node*>& all = claimants_[node.spec.requested_rank->value];
  all.push_back(&node);
  node.second = all.size() > 1;
}

void Roster::Unclaim(Node& node) {
  if (!node.spec.requested_rank) return;
  const auto found = claimants_.find(node.spec.requested_rank->value);
  std::vector<Node*>& all = found->second;
  all.erase(std::find(all.begin(), all.end(), &node));
  if (all.empty()) {
    claimants_.erase(found);
  } else if (all.front()->second) {
    Count(*all.front(), -1);
    all.front()->second = false;
    Count(*all.front(), 1);
  }
}

Node& Roster::Add(Node node, TimePoint now) {
  const std::uint64_t key = node.agent_id.value;
  DDPRUN_CHECK(!entries_.contains(key), "an agent is added once");
  node.heard = now;
  nodes_.push_back(std::move(node));
  Node& added = nodes_.back();
  entries_[key] = {std::prev(nodes_.end()), leases_.insert(leases_.end(), &added)};
  Claim(added);
  ++counts_[static_cast<int>(added.phase)];
  added.held.has_worked = added.phase == Phase::kStarted;
  Count(added, 1);
  NoteProgram(added);
  if (added.suspect) suspects_.insert(&added);
  removed_ += added.removed;
  return added;
}

void Roster::RestoreMember(Node node, TimePoint now) {
  Node& added = Add(std::move(node), now);
  const auto rank = static_cast<std::size_t>(added.rank.value);
  if (members_.size() <= rank) members_.resize(rank + 1, nullptr);
  members_[rank] = &added;
}

void Roster::Erase(Node& node) {
  EndLease(node);
  suspects_.erase(&node);
  --counts_[static_cast<int>(node.phase)];
  Count(node, -1);
  removed_ -= node.removed;
  if (node.rank.value >= 0) members_[static_cast<std::size_t>(node.rank.value)] = nullptr;
  Unclaim(node);
  const auto entry = entries_.find(node.agent_id.value);
  const auto place = entry->second.node;
  entries_.erase(entry);
  ForgetProgram(node);
  nodes_.erase(place);
}

void Roster::SetProgram(Node& node, WorkerProgram program) {
  if (node.program == program) return;
  ForgetProgram(node);
  node.program = std::move(program);
  NoteProgram(node);
}

const Node* Roster::NodeWithProgram(const std::string& role) const {
  const auto found = with_program_.find(role);
  return found == with_program_.end() ? nullptr : found->second;
}

void Roster::NoteProgram(const Node& node) {
  if (!node.program.name.empty()) with_program_.try_emplace(node.program.role, &node);
}

// If with_program_ has this node for its role, replaces it by another node of that role.
void Roster::ForgetProgram(const Node& node) {
  const auto found = with_program_.find(node.program.role);
  if (found == with_program_.end() || found->second != &node) return;
  const auto other = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& one) {
    return &one != &node && !one.program.name.empty() && one.program.role == node.program.role;
  });
  if (other == nodes_.end()) {
    with_program_.erase(found);
  } else {
    found->second = &*other;
  }
}

bool Roster::HasHost(const std::string& host) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return node.spec.host == host || node.spec.address == host;
  });
}

void Roster::Heard(Node& node, TimePoint now) {
  node.heard = now;
  auto& lease = entries_.at(node.agent_id.value).lease;
  if (lease) {
    leases_.splice(leases_.end(), leases_, *lease);
  } else {
    lease = leases_.insert(leases_.end(), &node);
  }
}

void Roster::EndLease(Node& node) {
  auto& lease = entries_.at(node.agent_id.value).lease;
  if (lease) leases_.erase(*lease);
  lease.reset();
}

std::vector<const Node*> Roster::Unheard(TimePoint since) const {
  std::vector<const Node*> nodes(suspects_.begin(), suspects_.end());
  for (const Node* const node : leases_) {
    if (node->heard >= since) break;
    if (!node->suspect) nodes.push_back(node);
  }
  return nodes;
}

Node* Roster::MostSilent() { return leases_.empty() ? nullptr : leases_.front(); }

void Roster::Count(const Node& node, int by) {
  if (node.free()) free_ += by;
  if (node.free() && node.held.pending) states_pending_ += by;
  if (!node.removed && !node.second) candidates_ += by;
}

void Roster::SetPhase(Node& node, Phase phase) {
  Count(node, -1);
  --counts_[static_cast<int>(node.phase)];
  node.phase = phase;
  node.held.has_worked = node.held.has_worked || phase == Phase::kStarted;
  ++counts_[static_cast<int>(node.phase)];
  Count(node, 1);
}

void Roster::SetSuspect(Node& node, bool suspect) {
  Count(node, -1);
  node.suspect = suspect;
  suspect ? void(suspects_.insert(&node)) : void(suspects_.erase(&node));
  Count(node, 1);
}

void Roster::SetRemoved(Node& node) {
  Count(node, -1);
  removed_ += !std::exchange(node.removed, true);
  Count(node, 1);
}

void Roster::SetHeldBack(Node& node, HeldBack held_back) {
  Count(node, -1);
  node.held_back = std::move(held_back);
  Count(node, 1);
}

void Roster::SetStatesPending(Node& node, bool pending) {
  Count(node, -1);
  node.held.pending = pending;
  Count(node, 1);
}

std::vector<Node*> Roster::NextMembers(int max_nodes) {
  std::vector<Node*> chosen;
  for (Node& node : nodes_) {
    if (node.free()) chosen.push_back(&node);
  }
  // Requested ranks decide first; then nodes with a rank come before newcomers.
  std::stable_sort(chosen.begin(), chosen.end(), [](const Node* a, const Node* b) {
    if (a->spec.requested_rank != b->spec.requested_rank) {
      return a->spec.requested_rank < b->spec.requested_rank;
    }
    if ((a->rank.value < 0) != (b->rank.value < 0)) return b->rank.value < 0;
    if (a->rank != b->rank) return a->rank < b->rank;
    return NaturalLess(a->spec.host, b->spec.host);
  });
  if (static_cast<int>(chosen.size()) > max_nodes) chosen.resize(max_nodes);
  return chosen;
}

int Roster::AssignRanks(int max_nodes) {
  const std::vector<Node*> chosen = NextMembers(max_nodes);
  const std::size_t count = chosen.size();
  members_.assign(count, nullptr);
  std::vector<Node*> without;
  for (Node* node : chosen) {
    const auto rank = static_cast<std::size_t>(node->rank.value);
    const bool keeps = !node->spec.requested_rank && node->rank.value >= 0 && rank < count &&
                       members_[rank] == nullptr;
    if (keeps) {
      members_[rank] = node;
    } else {
      without.push_back(node);
    }
  }
  auto next = without.begin();
  int world_size = 0;
  for (std::size_t rank = 0; rank < count; ++rank) {
    if (members_[rank] == nullptr) members_[rank] = *next++;
    Node& node = *members_[rank];
    node.rank = NodeRank{static_cast<int>(rank)};
    node.first_rank = Rank{world_size};
    node.told = ToldByWorkers{};
    SetPhase(node, Phase::kAssigned);
    world_size += node.spec.worker_count;
  }
  for (Node& node : nodes_) {
    if (!node.member()) node.rank = NodeRank{-1};
  }
  AssignRoleRanks();
  return world_size;
}

// Numbers the workers of each role in the order of node ranks, like torchelastic.
void Roster::AssignRoleRanks() {
  std::unordered_map<std::string, int> workers;  // by role, so far
  for (Node* const node : members_) {
    int& so_far = workers[node->program.role];
    node->role.first_rank = Rank{so_far};
    so_far += node->spec.worker_count;
  }
  for (Node* const node : members_) node->role.world_size = workers[node->program.role];
}

}  // namespace ddprun
