// A RendezvousClient that connects again, for ever: after a failed attempt, and after a session
// that was lost. The Supervisor decides how long that is worth it (--daemon-grace).
//
// Opened comes for every session, Lost for every session that ended and for every attempt that
// failed. What is sent while no session is open is dropped: on each new one the agent says anew
// what matters. Attempts are short and frequent, because a refused one is how an agent knows that
// there is no rendezvous that could give its ranks away (docs/leases.md).
//
// Its handler is called on the loop. The loop's thread only.
#ifndef DDPRUN_LAUNCHER_PERSISTENT_RENDEZVOUS_CLIENT_H_
#define DDPRUN_LAUNCHER_PERSISTENT_RENDEZVOUS_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>

#include "launcher/os/event_loop.h"
#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class PersistentRendezvousClient final : public RendezvousClient {
 public:
  struct Options {
    // Makes a client for one attempt at this place, that connects within `limit` or is lost.
    std::function<std::unique_ptr<RendezvousClient>(int place, Duration limit)> make_client;
    // Called before each attempt, and now and then while the rendezvous has said nothing: has it
    // run, where that is up to this agent. True: it runs there, or is about to, as our child.
    std::function<bool(int place)> ensure_running;
    // Where the rendezvous may be: places 0 to places − 1, each tried in turn until one says
    // something, and that one from then on.
    int places = 1;
    // From a loss or a failure to the next attempt: between half of the backoff and the whole,
    // which doubles from the first to the longest and starts anew with a session that says
    // something.
    Duration first_backoff = std::chrono::milliseconds(50);
    Duration longest_backoff = std::chrono::seconds(1);
    // How long one attempt may take. The longest at first, when thousands connect at once. After a
    // session the shortest, so that a rendezvous that comes back is noticed within the lease; it
    // doubles while there is no answer, which a rendezvous that is overrun may owe.
    Duration shortest_attempt = std::chrono::seconds(1);
    Duration longest_attempt = std::chrono::seconds(10);
    std::uint64_t seed = 0;  // of the jitter: a different one for each agent
  };

  // `loop` must outlive this object.
  PersistentRendezvousClient(EventLoop* loop, Options options);
  ~PersistentRendezvousClient() override;

  void Open(Handler handler) override;
  void Send(const Header& header, const AgentMessage& message) override;
  void Close() override;

 private:
  void Connect();
  // Before anybody was heard: another place may be the right one.
  void ConsiderNextPlace(Lost* lost);
  void OnEvent(int attempt, Event event);
  Duration NextBackoff();
  void Watch();

  EventLoop* const loop_;
  const Options options_;
  Handler handler_;
  std::unique_ptr<RendezvousClient> client_;
  EventLoop::Clock::time_point begin_;  // from Open
  int closed_after_tls_ = 0;            // attempts in a row that ended so
  int attempt_ = 0;                     // which client events are from
  int place_ = 0;                       // of this attempt
  bool ours_ = false;                   // the rendezvous there
  bool heard_ = false;                  // it has said something: it is there
  int denials_ = 0;                     // in a row
  bool open_ = false;                   // the session of client_
  bool closed_ = false;
  Duration backoff_{};  // the next one, before jitter; zero: the first
  Duration attempt_limit_;
  std::mt19937_64 random_;
  EventLoop::TimerId retry_ = 0;
  EventLoop::TimerId watch_ = 0;
  std::chrono::milliseconds watch_interval_{100};
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PERSISTENT_RENDEZVOUS_CLIENT_H_
