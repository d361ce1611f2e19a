// Follower: hears from the rendezvous at one endpoint whether it leads, where it is one of several
// (Follow in proto/ddprun/v1/rendezvous.proto). What it hears is a hint where to look, never a
// proof.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_FOLLOWER_H_
#define DDPRUN_RENDEZVOUS_CLIENT_FOLLOWER_H_

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "rendezvous/core/term.h"

namespace ddprun {

class ChannelSource;

// One call. To follow again after its end, make another one (launcher/connection/leader_watch.h).
class Follower {
 public:
  enum class Role {
    kStandsBy,
    kLeads,
    kCutOff,  // it leads, but has not reached etcd for too long to acknowledge
    kHandsOver,
  };
  struct Said {
    Role role = Role::kStandsBy;
    Term term{};           // of the leader that it knows of, perhaps itself; or none
    std::string leader{};  // where that one is reached, "HOST:PORT"; "": not known
  };
  // The call is over, or never began. Comes once, and nothing after it.
  struct Ended {
    std::string reason;  // for people: without the endpoint
    bool alone = false;  // it is not one of several: no such call is known there
    bool again = false;  // the next call will connect another way, and may get an answer
  };
  using Event = std::variant<Said, Ended>;
  // Called on a thread of gRPC, one call at a time. Must only enqueue.
  using Handler = std::function<void(Event)>;

  // Ends the call, and waits until the handler is not called any more: never for the network.
  virtual ~Follower() = default;
};

// Begins at once. Anybody may follow: no Handshake is made.
std::unique_ptr<Follower> Follow(std::shared_ptr<ChannelSource> source, Follower::Handler handler);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_FOLLOWER_H_
