// The network between agents and the rendezvous: sessions, each FIFO in both directions as over
// TCP, on links that delay, are cut one way or both, and come back.
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

// One connection. Each end notices by itself that it is over.
struct Session {
  int id = 0;
  int host = 0;
  int agent = 0;             // which process
  int boot = 0;              // of the daemon
  bool agent_open = false;   // the agent holds it
  bool server_open = false;  // the daemon does
  bool broken = false;       // what is sent from now on is lost
  bool loses_in_flight = false;
  bool has_joined = false;                                 // the first Join was handled
  AgentId agent_id;                                        // of that
  std::array<std::deque<std::function<void()>>, 2> queue;  // on the way
  std::array<Time, 2> last{};                              // when the last of them arrives
};
using SessionPtr = std::shared_ptr<Session>;

class Network {
 public:
  Network(World* world, int hosts);
  ~Network();

  SessionPtr Open(int host, int agent);
  // `deliver` runs when it arrives, if it does.
  void Send(const SessionPtr& session, Direction direction, std::function<void()> deliver);
  // One datagram, outside of sessions: lost if the link is cut when it arrives.
  void SendOnce(int host, Direction direction, std::function<void()> arrived);
  Time Delay();

  void Cut(int host, Direction direction);
  void Heal(int host, Direction direction);
  void HealAll();
  bool IsCut(int host, Direction direction) const { return links_[host].cut[direction]; }

  // The connection itself is lost (a proxy, a reset). Each end learns of it after its delay;
  // negative: never, unless it says something.
  void Break(const SessionPtr& session, Time agent_after, Time server_after);
  // Open sessions, the oldest first.
  std::vector<SessionPtr> OpenSessions() const;

 private:
  struct Link {
    std::array<bool, 2> cut{};
    std::array<int, 2> cuts{};                     // how many there were
    std::array<std::vector<SessionPtr>, 2> stuck;  // one entry for each message that arrived
  };

  void Arrive(const SessionPtr& session, Direction direction);

  World* const world_;  // outlives this
  std::vector<Link> links_;
  std::vector<std::weak_ptr<Session>> sessions_;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_NETWORK_H_
