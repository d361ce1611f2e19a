#include "launcher/connection/waiting_sessions.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace ddprun {

WaitingSessions::Session WaitingSessions::Take(int place) {
  const auto node = sessions_.extract(place);
  if (node.empty()) return {};
  if (node.mapped().open) return std::move(node.mapped());
  node.mapped().client->Abandon();
  return {};
}

void WaitingSessions::OnEvent(int attempt, const RendezvousClient::Event& event) {
  const auto found = std::find_if(sessions_.begin(), sessions_.end(), [attempt](const auto& entry) {
    return entry.second.attempt == attempt;
  });
  if (found == sessions_.end()) return;
  if (std::holds_alternative<RendezvousClient::Opened>(event)) found->second.open = true;
  if (!std::holds_alternative<RendezvousClient::Lost>(event)) return;
  found->second.client->Close();  // it is over: returns at once
  sessions_.erase(found);
}

void WaitingSessions::Close() {
  for (auto& [place, session] : sessions_) session.client->Abandon();
  sessions_.clear();
}

}  // namespace ddprun
