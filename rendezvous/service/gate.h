// The door of a rendezvous: who calls, and whether there is room. Every call passes it first.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_GATE_H_
#define DDPRUN_RENDEZVOUS_SERVICE_GATE_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/auth/authenticator.h"
#include "rendezvous/auth/principal.h"
#include "rendezvous/auth/refusal_counters.h"

namespace ddprun {

// "ipv4:10.0.0.7:41822" → "ipv4:10.0.0.7": all connections of a host.
std::string_view AddressOf(std::string_view peer);

class Gate : public std::enable_shared_from_this<Gate> {
 public:
  // A session's place among those of its address; given back at its end.
  class Place {
   public:
    Place() = default;
    Place(std::shared_ptr<Gate> gate, auth::Principal principal, std::string address);
    Place(Place&&) = default;
    Place& operator=(Place&&) = delete;
    ~Place() { Leave(); }

    const auth::Principal& principal() const { return principal_; }
    // Gives the place back early. Idempotent.
    void Leave();
    void CountRefusal(const char* reason, std::string_view peer, const absl::Status& why) const;

   private:
    std::shared_ptr<Gate> gate_;
    auth::Principal principal_;
    std::string address_;
    bool left_ = false;
  };

  // `authenticator` may be null: nobody is asked.
  Gate(std::shared_ptr<auth::Authenticator> authenticator, std::size_t max_streams_per_address,
       RefusalCounters::Log log);

  // Who makes this call. Errors as the proto has them; they are counted.
  absl::StatusOr<auth::Principal> Check(const grpc::ServerContextBase& context,
                                        std::string_view method);
  // The same for a session, and takes a place for it: ResourceExhausted when there is none.
  absl::StatusOr<Place> Enter(const grpc::ServerContextBase& context);

  absl::StatusOr<v1::HandshakeReply> Handshake(const grpc::ServerContextBase& context,
                                               const v1::HandshakeRequest& request);

  // Whether the calls above may wait for somebody outside of this process.
  bool may_wait() const { return authenticator_ != nullptr && authenticator_->may_wait(); }

  RefusalCounters& refusals() { return refusals_; }

 private:
  absl::StatusOr<auth::Principal> Check(const grpc::ServerContextBase& context,
                                        std::string_view method, const std::string& peer);
  absl::Status Count(const char* reason, std::string_view peer, absl::Status why);

  const std::shared_ptr<auth::Authenticator> authenticator_;
  const std::size_t max_streams_per_address_;
  RefusalCounters refusals_;

  std::mutex mutex_;
  std::unordered_map<std::string, std::size_t> streams_;  // by address; guarded by mutex_
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_GATE_H_
