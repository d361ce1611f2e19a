// Follower: asks the rendezvous at one endpoint whether it leads, if it is one of several (Follow
// in proto/ddprun/v1/rendezvous.proto). The answer is a hint where to look, never a proof.
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
    kStandsBy,  // or leads, but still reads the jobs
    kLeads,
    kCutOff,  // leads, but may not acknowledge: it has not reached etcd for too long
    kHandsOver,
  };
  struct Said {
    Role role = Role::kStandsBy;
    Term term{};           // of the known leader, perhaps itself; none(): no leader is known
    std::string leader{};  // the leader's "HOST:PORT"; "": not known
  };
  // The call is over, or could not start. The last event.
  struct Ended {
    std::string reason;  // for people: without the endpoint
    bool alone = false;  // the rendezvous is not one of several: it does not know this call
    bool again = false;  // the next call will use another transport, and may get an answer
  };
  using Event = std::variant<Said, Ended>;
  // Called on gRPC's threads, one call at a time. Must only enqueue.
  using Handler = std::function<void(Event)>;

  // Ends the call, and waits until the handler will not be called again. Never waits for the
  // network.
  virtual ~Follower() = default;
};

// Starts at once, without a Handshake: Follow needs no credentials.
std::unique_ptr<Follower> Follow(std::shared_ptr<ChannelSource> source, Follower::Handler handler);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_FOLLOWER_H_
