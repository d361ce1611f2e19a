// WaitingSessions: sessions with rendezvous that stand by, at most one for each place. A session is
// opened before it is needed. When its rendezvous takes over, the agent is already authenticated,
// and its first message follows at once. This class does not open a session again after its end.
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
    int attempt = 0;                           // number of the client, for OnEvent()
    bool open = false;                         // the rendezvous has accepted it
  };

  bool Has(int place) const { return sessions_.contains(place); }
  void Add(int place, Session session) { sessions_[place] = std::move(session); }
  // Takes out the open session of this place. A session that is not open yet is ended: it may hang.
  Session Take(int place);
  // An event of one of the sessions, or of a client that no longer matters.
  void OnEvent(int attempt, const RendezvousClient::Event& event);
  // Ends all sessions.
  void Close();

 private:
  std::map<int, Session> sessions_;  // by place
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_WAITING_SESSIONS_H_
