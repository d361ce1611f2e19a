// A RendezvousClient that always connects again: after a failed attempt, and after a lost session.
// The Supervisor decides when to give up (--daemon-grace).
//
// Opened comes for every session, Lost for every ended session and every failed attempt. Messages
// sent while no session is open are dropped: on each new session the agent repeats what matters.
// Attempts are short and frequent, because a refused attempt proves that no rendezvous could give
// the agent's ranks away (docs/internals/leases.md).
//
// With several rendezvous it switches to the leader at once (Lead). If a waiting session to that
// place exists (StandBy), it uses that session.
//
// Its handler is called on the loop. The loop's thread only.
#ifndef DDPRUN_LAUNCHER_CONNECTION_PERSISTENT_RENDEZVOUS_CLIENT_H_
#define DDPRUN_LAUNCHER_CONNECTION_PERSISTENT_RENDEZVOUS_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/connection/daemon_watch.h"
#include "launcher/connection/place_rotation.h"
#include "launcher/connection/reconnect_timing.h"
#include "launcher/connection/waiting_sessions.h"
#include "launcher/os/event_loop.h"
#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class PersistentRendezvousClient final : public RendezvousClient {
 public:
  struct Options {
    // Makes a client for one attempt at this place. It connects within `limit` or is lost.
    std::function<std::unique_ptr<RendezvousClient>(int place, Duration limit)> make_client;
    // Makes a client for a waiting session to the rendezvous at this place. Empty: none is kept.
    std::function<std::unique_ptr<RendezvousClient>(int place)> make_waiting{};
    // Called before each attempt, and repeatedly until the rendezvous has sent a message other than
    // Waiting.
    DaemonWatch::EnsureRunning ensure_running;
    // True: the newest client for this place used credentials that have since been replaced, so its
    // denial is ignored. May be empty.
    std::function<bool(int place)> credentials_outdated{};
    int places = 1;  // where the rendezvous may be
    // A rendezvous runs at each place, and one of them leads. The client never stays at one place
    // to wait for its rendezvous.
    bool several = false;
    // Called with the place of the rendezvous at each message from it. May be empty.
    std::function<void(int place)> heard_at{};
    // Called with a place whose rendezvous refuses our credentials, before the next place is tried.
    // May be empty.
    std::function<void(int place)> denied_at{};
    // Called before Lost, for each lost session and each failed attempt. Not called if Lead() or
    // Move() ended the session. May be empty.
    std::function<void(const Lost&)> lost{};
    ReconnectTiming::Options timing{};
  };

  // `loop` must outlive this object.
  PersistentRendezvousClient(EventLoop* loop, Options options);
  ~PersistentRendezvousClient() override;

  void Open(Handler handler) override;
  void Send(const Header& header, const AgentMessage& message) override;
  void Close() override;

  // The rendezvous at this place leads, as far as known; nullopt: none leads. A session to another
  // place is lost, with this reason, and the next session is opened without a pause.
  void Lead(std::optional<int> place, const std::string& reason);
  // The rendezvous at this place stands by: keep a waiting session to it.
  void StandBy(int place);
  // make_client now makes another client for the same place: loses the session, and opens the next
  // one without a pause, like Lead().
  void Move(const std::string& reason);
  // No rendezvous can run at the present place, and waiting does not change this. The next place is
  // tried without a pause.
  void SkipPlace();
  // No rendezvous can run at any place where this agent may start one, and waiting does not change
  // this. Sends Lost with this reason.
  void FindUseless(const std::string& reason);

 private:
  void Connect();
  void Listen(RendezvousClient* client, int attempt);
  void Use(WaitingSessions::Session session);
  // Loses the session or attempt, and opens the next session without a pause.
  void GoOnAtOnce(const std::string& reason);
  void OnEvent(int attempt, Event event);
  void OnLost(Lost* lost);
  void OnHeard(const Received& received);

  EventLoop* const loop_;
  const Options options_;
  PlaceRotation places_;
  ReconnectTiming timing_;
  DaemonWatch daemon_;
  Handler handler_;
  std::unique_ptr<RendezvousClient> client_;
  int attempt_ = 0;    // the number of the client whose events count; 0: no events count
  int attempts_ = 0;   // the number of the newest client
  bool open_ = false;  // the session of client_
  bool closed_ = false;
  bool spoke_ = false;    // client_ has received a message
  bool waiting_ = false;  // for retry_; client_ has ended
  bool at_once_ = false;  // an attempt that began before its place led is repeated without a pause
  EventLoop::TimerId retry_ = 0;
  WaitingSessions standing_by_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_PERSISTENT_RENDEZVOUS_CLIENT_H_
