#include "tests/simulation/network.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/world.h"

namespace ddprun::sim {

Network::Network(World* world, int hosts, int daemons)
    : world_(world),
      hosts_(hosts),
      daemons_(daemons),
      between_(daemons * daemons),
      links_(hosts + daemons + hosts * daemons) {}

// Messages on their way hold their session.
Network::~Network() {
  for (const auto& weak : sessions_) {
    const SessionPtr session = weak.lock();
    if (session != nullptr) session->queue = {};
  }
}

int Network::FirstCut(int host, Direction direction, int daemon) const {
  for (const int link : {host, LinkOfDaemon(daemon), LinkOfPair(host, daemon)}) {
    if (links_[link].cut[direction]) return link;
  }
  return -1;
}

bool Network::IsCut(int host, Direction direction, int daemon) const {
  return FirstCut(host, direction, daemon) >= 0;
}

SessionPtr Network::Open(int host, int agent, int daemon) {
  auto session = std::make_shared<Session>();
  session->id = ++world_->result.sessions;
  session->host = host;
  session->agent = agent;
  session->daemon = daemon;
  std::erase_if(sessions_, [](const auto& other) { return other.expired(); });
  sessions_.push_back(session);
  return session;
}

// Most messages are quick, some take long.
Time Network::Delay() {
  const Time shortest = world_->plan.shortest_delay;
  Time longest = world_->plan.longest_delay;
  // A network that is slower than the lease would be another fault.
  if (world_->healed) longest = std::min(longest, 40 * kMillisecond);
  if (world_->random.Percent(70)) longest = std::max(shortest, longest / 8);
  return world_->random.Between(shortest, longest);
}

void Network::Send(const SessionPtr& session, Direction direction, std::function<void()> deliver) {
  if (session->broken) return;
  const Time at = std::max(world_->scheduler.now() + Delay(), session->last[direction] + 1);
  session->last[direction] = at;
  session->queue[direction].push_back(std::move(deliver));
  world_->scheduler.At(at, [this, session, direction] { Arrive(session, direction); });
}

void Network::SendOnce(int host, Direction direction, std::function<void()> arrived, int daemon) {
  world_->scheduler.After(Delay(), [this, host, direction, arrived = std::move(arrived), daemon] {
    if (!IsCut(host, direction, daemon)) arrived();
  });
}

void Network::SendBetween(int from, int to, std::function<void()> arrived) {
  const Time delay = world_->several_random.Wide(1, 30) * kMillisecond;
  world_->scheduler.After(delay, [this, from, to, arrived = std::move(arrived)] {
    if (links_[LinkOfDaemon(from)].cut[kDown] || links_[LinkOfDaemon(to)].cut[kUp]) return;
    if (!between_[from * daemons_ + to]) arrived();
  });
}

void Network::Arrive(const SessionPtr& session, Direction direction) {
  const int cut = FirstCut(session->host, direction, session->daemon);
  if (cut >= 0) {
    links_[cut].stuck[direction].push_back(session);
    return;
  }
  const std::function<void()> deliver = std::move(session->queue[direction].front());
  session->queue[direction].pop_front();
  if (session->broken && session->loses_in_flight) return;
  deliver();
}

void Network::Cut(int number, Direction direction) {
  Link& link = links_[number];
  if (link.cut[direction]) return;
  link.cut[direction] = true;
  const int cut = ++link.cuts[direction];
  // Keepalive: an end gives up after 2 to 3 s without an answer; a middlebox occasionally answers.
  for (const SessionPtr& session : OpenSessions()) {
    if (session->host != number && LinkOfDaemon(session->daemon) != number &&
        LinkOfPair(session->host, session->daemon) != number) {
      continue;
    }
    for (const bool agent : {true, false}) {
      if (world_->random.Percent(15)) continue;
      const Time after = world_->random.Between(2000, 3000) * kMillisecond;
      world_->scheduler.After(after, [this, session, number, direction, cut, agent] {
        const Link& link = links_[number];
        if (!link.cut[direction] || link.cuts[direction] != cut) return;
        if (agent) {
          world_->AgentEndLost(session, "keepalive");
        } else {
          world_->ServerEndLost(session);
        }
      });
    }
  }
}

void Network::Heal(int number, Direction direction) {
  Link& link = links_[number];
  if (!link.cut[direction]) return;
  link.cut[direction] = false;
  // TCP sends again what was sent during the cut, when its timers expire.
  const Time again = world_->scheduler.now() + world_->random.Wide(1, 400) * kMillisecond;
  for (const SessionPtr& session : std::exchange(link.stuck[direction], {})) {
    session->last[direction] = std::max(session->last[direction], again);
    world_->scheduler.At(again, [this, session, direction] { Arrive(session, direction); });
  }
}

void Network::HealAll() {
  for (int link = 0; link < static_cast<int>(links_.size()); ++link) {
    Heal(link, kUp);
    Heal(link, kDown);
  }
  between_.assign(between_.size(), false);
}

void Network::Break(const SessionPtr& session, Time agent_after, Time server_after) {
  session->broken = true;
  session->loses_in_flight = world_->random.Percent(50);
  if (agent_after >= 0) {
    world_->scheduler.After(agent_after,
                            [this, session] { world_->AgentEndLost(session, "reset"); });
  }
  if (server_after >= 0) {
    world_->scheduler.After(server_after, [this, session] { world_->ServerEndLost(session); });
  }
}

std::vector<SessionPtr> Network::OpenSessions() const {
  std::vector<SessionPtr> open;
  for (const auto& weak : sessions_) {
    SessionPtr session = weak.lock();
    if (session != nullptr && (session->agent_open || session->server_open)) {
      open.push_back(std::move(session));
    }
  }
  return open;
}

}  // namespace ddprun::sim
