// The network between agents and the rendezvous: sessions over links that can be cut. Sessions keep
// the order of messages in each direction, as TCP does. Links delay messages. A link can be cut in
// one direction or both, and healed.
#ifndef DDPRUN_TESTS_SIMULATION_NETWORK_H_
#define DDPRUN_TESTS_SIMULATION_NETWORK_H_

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "rendezvous/core/types.h"
#include "tests/simulation/scheduler.h"

namespace ddprun::sim {

struct World;

enum Direction { kUp, kDown };  // to the rendezvous, to the agent

// One connection. Each end notices by itself that the connection is lost.
struct Session {
  int id = 0;
  int host = 0;
  int agent = 0;             // id of the agent's process
  int daemon = 0;            // number of the rendezvous
  int boot = 0;              // boot of the rendezvous
  bool agent_open = false;   // the agent holds it
  bool server_open = false;  // the daemon holds it
  bool broken = false;       // later messages are lost
  bool loses_in_flight = false;
  bool has_joined = false;                                 // the first Join was handled
  AgentId agent_id;                                        // of that Join
  std::array<std::deque<std::function<void()>>, 2> queue;  // messages on their way
  std::array<Time, 2> last{};                              // arrival of the last message
};
using SessionPtr = std::shared_ptr<Session>;

class Network {
 public:
  // Links have numbers: first one for each host, then one for each rendezvous, then one for each
  // pair of host and rendezvous. A message passes the links of its host, its rendezvous and the
  // pair.
  Network(World* world, int hosts, int daemons);
  ~Network();

  SessionPtr Open(int host, int agent, int daemon = 0);
  // `deliver` runs when the message arrives.
  void Send(const SessionPtr& session, Direction direction, std::function<void()> deliver);
  // One datagram, outside of sessions: lost if the link is cut when it arrives.
  void SendOnce(int host, Direction direction, std::function<void()> arrived, int daemon = 0);
  // From one rendezvous to another one.
  void SendBetween(int from, int to, std::function<void()> arrived);
  Time Delay();

  int LinkOfDaemon(int daemon) const { return hosts_ + daemon; }
  int LinkOfPair(int host, int daemon) const {
    return hosts_ + daemons_ + host * daemons_ + daemon;
  }
  void Cut(int link, Direction direction);
  void Heal(int link, Direction direction);
  void HealAll();
  bool IsCut(int host, Direction direction, int daemon = 0) const;
  // Cuts or heals the direction between two rendezvous.
  void CutBetween(int from, int to, bool cut) { between_[from * daemons_ + to] = cut; }

  // The connection itself is lost (a proxy, a reset). Each end notices it after its delay; never if
  // the delay is negative.
  void Break(const SessionPtr& session, Time agent_after, Time server_after);
  // Open sessions, the oldest first.
  std::vector<SessionPtr> OpenSessions() const;

 private:
  struct Link {
    std::array<bool, 2> cut{};
    std::array<int, 2> cuts{};                     // number of cuts until now
    std::array<std::vector<SessionPtr>, 2> stuck;  // one entry for each message that waits here
  };

  void Arrive(const SessionPtr& session, Direction direction);
  // The first cut link on the way, or −1.
  int FirstCut(int host, Direction direction, int daemon) const;

  World* const world_;  // outlives this
  const int hosts_;
  const int daemons_;
  std::vector<bool> between_;
  std::vector<Link> links_;
  std::vector<std::weak_ptr<Session>> sessions_;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_NETWORK_H_
