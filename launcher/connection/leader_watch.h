// LeaderWatch: follows several rendezvous at once, and reports which of them leads. A call that
// ends is started again, without limit: usually after a short pause with jitter, and after 10 s if
// that rendezvous is not one of several.
//
// The loop's thread only.
#ifndef DDPRUN_LAUNCHER_CONNECTION_LEADER_WATCH_H_
#define DDPRUN_LAUNCHER_CONNECTION_LEADER_WATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/connection/leader_claims.h"
#include "launcher/connection/reconnect_timing.h"
#include "launcher/os/event_loop.h"
#include "rendezvous/client/follower.h"

namespace ddprun {

class LeaderWatch {
 public:
  // Begins to follow the rendezvous at this place.
  using MakeFollower = std::function<std::unique_ptr<Follower>(int place, Follower::Handler)>;
  // Called on the loop when another place leads than before, or the same place under another term.
  // nullopt: nobody leads, as far as known.
  using OnLeader = std::function<void(std::optional<int> place)>;
  // Called on the loop whenever the rendezvous at this place says that it stands by. May be empty.
  using OnStandby = std::function<void(int place)>;

  // `loop` must outlive this object. `seed`: of the jitter, different for each agent. Begins at
  // once.
  LeaderWatch(EventLoop* loop, int places, std::uint64_t seed, MakeFollower make_follower,
              OnLeader on_leader, OnStandby on_standby = {});
  ~LeaderWatch();
  LeaderWatch(const LeaderWatch&) = delete;
  LeaderWatch& operator=(const LeaderWatch&) = delete;

 private:
  struct Place {
    explicit Place(const ReconnectTiming::Options& options) : timing(options) {}
    std::unique_ptr<Follower> follower;  // null: until the timer
    int call = 0;                        // number of the newest call; others' events are ignored
    EventLoop::TimerId retry = 0;
    ReconnectTiming timing;
    std::string why_ended{};  // of the last call, if no message came since
  };

  void Begin(int place);
  void OnEvent(int place, int call, const Follower::Event& event);
  void OnEnded(int place, const Follower::Ended& ended);

  EventLoop* const loop_;
  const MakeFollower make_follower_;
  const OnLeader on_leader_;
  const OnStandby on_standby_;
  LeaderClaims claims_;
  std::vector<Place> places_;
  // Shared with tasks posted to the loop, which may run after this object's end.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_LEADER_WATCH_H_
