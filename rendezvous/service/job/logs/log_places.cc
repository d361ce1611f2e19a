#include "rendezvous/service/job/logs/log_places.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {

void LogPlaces::OnJoin(AgentId agent_id, std::string folder) {
  Agent& agent = agents_[agent_id.value];
  agent.folder = std::move(folder);
  agent.here = true;
}

void LogPlaces::OnGone(AgentId agent_id) {
  const auto found = agents_.find(agent_id.value);
  if (found == agents_.end()) return;
  found->second.here = false;
  EraseIfUnused(agent_id);
}

void LogPlaces::OnFormed(Generation generation, const std::vector<NodeRecord>& members) {
  if (members.empty() || (!formed_.empty() && formed_.back().generation >= generation)) return;
  Formed formed{generation, {}};
  formed.nodes.reserve(members.size());
  for (const NodeRecord& member : members) {
    formed.nodes.push_back(
        {member.agent_id, member.first_rank, member.spec.worker_count, member.spec.host});
    ++agents_[member.agent_id.value].generations;
  }
  places_ += formed.nodes.size();
  formed_.push_back(std::move(formed));
  while (formed_.size() > 1 &&
         (formed_.size() > kMaxGenerations || places_ - formed_.back().nodes.size() > kMaxPlaces)) {
    ForgetOldest();
  }
}

void LogPlaces::OnStarted(Generation generation) {
  if (!started_ || *started_ < generation) started_ = generation;
}

void LogPlaces::ForgetOldest() {
  const Formed oldest = std::move(formed_.front());
  formed_.pop_front();
  places_ -= oldest.nodes.size();
  for (const Node& node : oldest.nodes) {
    --agents_[node.agent_id.value].generations;
    EraseIfUnused(node.agent_id);
  }
}

void LogPlaces::EraseIfUnused(AgentId agent_id) {
  const auto found = agents_.find(agent_id.value);
  if (!found->second.here && found->second.generations == 0) agents_.erase(found);
}

std::optional<Generation> LogPlaces::oldest() const {
  if (formed_.empty()) return std::nullopt;
  return formed_.front().generation;
}

const LogPlaces::Formed* LogPlaces::Of(Generation generation) const {
  const auto found = std::find_if(formed_.begin(), formed_.end(), [&](const Formed& formed) {
    return formed.generation == generation;
  });
  return found == formed_.end() ? nullptr : &*found;
}

std::optional<int> LogPlaces::WorldSize(Generation generation) const {
  const Formed* const formed = Of(generation);
  if (formed == nullptr || !started_ || generation > *started_) return std::nullopt;
  const Node& last = formed->nodes.back();
  return last.first_rank.value + last.workers;
}

std::optional<LogPlaces::Place> LogPlaces::Find(Generation generation, Rank rank) const {
  const Formed* const formed = Of(generation);
  if (formed == nullptr) return std::nullopt;
  const auto after =
      std::upper_bound(formed->nodes.begin(), formed->nodes.end(), rank,
                       [](Rank sought, const Node& node) { return sought < node.first_rank; });
  if (after == formed->nodes.begin()) return std::nullopt;
  const Node& node = *(after - 1);
  const int local_rank = rank.value - node.first_rank.value;
  if (local_rank >= node.workers) return std::nullopt;
  const auto agent = agents_.find(node.agent_id.value);
  return Place{node.agent_id, node.host, agent == agents_.end() ? "" : agent->second.folder,
               LocalRank{local_rank}};
}

std::string WhereText(const LogPlaces::Place& place, const LogSource& source) {
  const char* const file = source.stream == LogStream::kStdout ? "stdout.log" : "stderr.log";
  return absl::StrCat(place.host, ":", place.folder.empty() ? "LOG_DIR/RUN" : place.folder,
                      "/attempt_", source.generation.value, "/", place.local_rank.value, "/", file);
}

}  // namespace ddprun
