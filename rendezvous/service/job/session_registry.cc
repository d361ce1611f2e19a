#include "rendezvous/service/job/session_registry.h"

namespace ddprun {

void SessionRegistry::Add(std::shared_ptr<AgentStream> stream, TimePoint join_by) {
  unjoined_.emplace_back(join_by, stream);
  AgentStream* const key = stream.get();
  sessions_.emplace(key, Session{std::move(stream), nullptr, {}});
}

SessionRegistry::Session* SessionRegistry::Find(AgentStream* stream) {
  const auto found = sessions_.find(stream);
  return found == sessions_.end() ? nullptr : &found->second;
}

AgentStream* SessionRegistry::Assign(Session& session, JobPtr job, AgentId agent_id) {
  session.job = std::move(job);
  session.agent_id = agent_id;
  return std::exchange(session.job->streams[agent_id.value], session.stream.get());
}

void SessionRegistry::Close(AgentStream* stream, const absl::Status& why) {
  const auto node = sessions_.extract(stream);
  const Session& session = node.mapped();
  if (session.job != nullptr) {
    const auto place = session.job->streams.find(session.agent_id.value);
    // The entry may already belong to the agent's newer session.
    if (place != session.job->streams.end() && place->second == stream) {
      session.job->streams.erase(place);
    }
  }
  session.stream->Close(why);
}

void SessionRegistry::CloseAll(const absl::Status& why) {
  while (!sessions_.empty()) Close(sessions_.begin()->first, why);
}

std::shared_ptr<AgentStream> SessionRegistry::FindSilent(TimePoint now) {
  while (!unjoined_.empty()) {
    const auto& [join_by, weak] = unjoined_.front();
    std::shared_ptr<AgentStream> stream = weak.lock();
    const Session* const session = stream == nullptr ? nullptr : Find(stream.get());
    const bool silent = session != nullptr && session->job == nullptr;
    if (silent && join_by > now) return nullptr;
    unjoined_.pop_front();
    if (silent) return stream;
  }
  return nullptr;
}

std::optional<TimePoint> SessionRegistry::NextDeadline() const {
  if (unjoined_.empty()) return std::nullopt;
  return unjoined_.front().first;
}

}  // namespace ddprun
