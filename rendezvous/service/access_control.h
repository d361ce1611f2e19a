// AccessControl: authenticates the caller of every call except Handshake and Follow, and limits the
// sessions and Follow calls of each address.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_ACCESS_CONTROL_H_
#define DDPRUN_RENDEZVOUS_SERVICE_ACCESS_CONTROL_H_

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

class AccessControl : public std::enable_shared_from_this<AccessControl> {
 public:
  // The place of a session or Follow call within the limit of its address. The destructor gives the
  // place back.
  class Slot {
   public:
    Slot() = default;
    Slot(std::shared_ptr<AccessControl> access, auth::Principal principal, std::string key);
    Slot(Slot&&) = default;
    Slot& operator=(Slot&&) = delete;
    ~Slot() { Leave(); }

    const auth::Principal& principal() const { return principal_; }
    // Gives the place back early. Idempotent.
    void Leave();
    void CountRefusal(const char* reason, std::string_view peer, const absl::Status& why) const;

   private:
    std::shared_ptr<AccessControl> access_;
    auth::Principal principal_;
    std::string key_;  // in streams_
    bool left_ = false;
  };

  // `authenticator` null: callers need no credentials.
  AccessControl(std::shared_ptr<auth::Authenticator> authenticator,
                std::size_t max_streams_per_address, RefusalCounters::Log log);

  // Returns the caller's principal. Errors as in rendezvous.proto; they are counted.
  absl::StatusOr<auth::Principal> Check(const grpc::ServerContextBase& context,
                                        std::string_view method);
  // The same for a session, and takes a slot for it. ResourceExhausted: no slot is free.
  absl::StatusOr<Slot> Enter(const grpc::ServerContextBase& context);
  // A slot for a Follow call, which needs no credentials. `timed`: the caller asks for messages at
  // an interval, like another rendezvous; an address has few of these slots.
  absl::StatusOr<Slot> EnterFollower(const grpc::ServerContextBase& context, bool timed);

  absl::StatusOr<v1::HandshakeReply> Handshake(const grpc::ServerContextBase& context,
                                               const v1::HandshakeRequest& request);

  // True: Check, Enter and Handshake may wait for another process (munged).
  bool may_wait() const { return authenticator_ != nullptr && authenticator_->may_wait(); }

  RefusalCounters& refusals() { return refusals_; }

 private:
  absl::StatusOr<auth::Principal> Check(const grpc::ServerContextBase& context,
                                        std::string_view method, const std::string& peer);
  absl::Status Count(const char* reason, std::string_view peer, absl::Status why);
  absl::StatusOr<Slot> TakeSlot(const std::string& peer, auth::Principal principal,
                                std::string_view kind, std::size_t most);

  const std::shared_ptr<auth::Authenticator> authenticator_;
  const std::size_t max_streams_per_address_;
  RefusalCounters refusals_;

  std::mutex mutex_;
  // By kind and address, such as "sessions from ipv4:10.0.0.7". Guarded by mutex_.
  std::unordered_map<std::string, std::size_t> streams_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_ACCESS_CONTROL_H_
