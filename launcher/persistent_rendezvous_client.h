// A RendezvousClient for a rendezvous that agents start and that ends by itself after each job: it
// may be about to end when we come. Until the first word of the rendezvous, other than Waiting, a
// session that is lost is opened anew, within the time for connecting; after it, a loss is a loss.
//
// Its handler is called on the loop. The loop's thread only.
#ifndef DDPRUN_LAUNCHER_PERSISTENT_RENDEZVOUS_CLIENT_H_
#define DDPRUN_LAUNCHER_PERSISTENT_RENDEZVOUS_CLIENT_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "launcher/os/event_loop.h"
#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class PersistentRendezvousClient final : public RendezvousClient {
 public:
  struct Options {
    Duration connect_timeout = std::chrono::seconds(60);
    // Makes a client that tries to connect for so long.
    std::function<std::unique_ptr<RendezvousClient>(Duration)> make_client;
    // Called before each attempt, and now and then while the rendezvous has said nothing: has it
    // run, where that is up to this agent.
    std::function<void()> ensure_running;
  };

  // `loop` must outlive this object.
  PersistentRendezvousClient(EventLoop* loop, Options options);
  ~PersistentRendezvousClient() override;

  void Open(Handler handler) override;
  void Send(const Header& header, const AgentMessage& message) override;
  void Close() override;

 private:
  void Connect();
  void OnEvent(int attempt, const Event& event);
  void Watch();

  EventLoop* const loop_;
  const Options options_;
  Handler handler_;
  std::unique_ptr<RendezvousClient> client_;
  int attempt_ = 0;  // which client events are from
  bool heard_ = false;
  bool closed_ = false;
  EventLoop::Clock::time_point begin_;
  EventLoop::Clock::time_point deadline_;
  std::vector<std::pair<Header, AgentMessage>> unanswered_;  // to be said again on a new session
  EventLoop::TimerId retry_ = 0;
  EventLoop::TimerId watch_ = 0;
  std::chrono::milliseconds watch_interval_{100};
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PERSISTENT_RENDEZVOUS_CLIENT_H_
