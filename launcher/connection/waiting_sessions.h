// WaitingSessions: sessions with rendezvous that stand by, at most one at each place. Opened before
// they are needed: where such a rendezvous takes over, the agent has shown already who it is, and
// its first message is on its way at once. A session that ends is not opened again by itself.
//
// The loop's thread only.
#ifndef DDPRUN_LAUNCHER_CONNECTION_WAITING_SESSIONS_H_
#define DDPRUN_LAUNCHER_CONNECTION_WAITING_SESSIONS_H_

#include <map>
#include <memory>
#include <utility>

#include "rendezvous/client/rendezvous_client.h"

namespace ddprun {

class WaitingSessions {
 public:
  struct Session {
    std::unique_ptr<RendezvousClient> client;  // null: there is none
    int attempt = 0;                           // which client events are from
    bool open = false;                         // the rendezvous has accepted it
  };

  bool Has(int place) const { return sessions_.contains(place); }
  void Add(int place, Session session) { sessions_[place] = std::move(session); }
  // Gives the open one at this place away. One that is not open yet is ended: it may hang.
  Session Take(int place);
  // Of one of them, or of a client that is not of interest any more.
  void OnEvent(int attempt, const RendezvousClient::Event& event);
  // Ends them all.
  void Close();

 private:
  std::map<int, Session> sessions_;  // by place
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_WAITING_SESSIONS_H_
