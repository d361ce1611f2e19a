#include "rendezvous/service/access_control.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

// Each of these followers costs several messages a second. A host runs one rendezvous of a group,
// or a few.
constexpr std::size_t kMostTimedFollowers = 16;

}  // namespace

std::string_view AddressOf(std::string_view peer) {
  const bool has_port = peer.substr(0, 2) == "ip";  // a Unix socket has none
  return has_port ? peer.substr(0, peer.rfind(':')) : peer;
}

AccessControl::Slot::Slot(std::shared_ptr<AccessControl> access, auth::Principal principal,
                          std::string key)
    : access_(std::move(access)), principal_(std::move(principal)), key_(std::move(key)) {}

void AccessControl::Slot::Leave() {
  if (access_ == nullptr || std::exchange(left_, true)) return;
  const std::lock_guard lock(access_->mutex_);
  const auto streams = access_->streams_.find(key_);
  if (--streams->second == 0) access_->streams_.erase(streams);
}

void AccessControl::Slot::CountRefusal(const char* reason, std::string_view peer,
                                       const absl::Status& why) const {
  if (access_ != nullptr) access_->Count(reason, peer, why).IgnoreError();
}

AccessControl::AccessControl(std::shared_ptr<auth::Authenticator> authenticator,
                             std::size_t max_streams_per_address, RefusalCounters::Log log)
    : authenticator_(std::move(authenticator)),
      max_streams_per_address_(max_streams_per_address),
      refusals_(std::move(log)) {}

absl::Status AccessControl::Count(const char* reason, std::string_view peer, absl::Status why) {
  refusals_.Count(reason, absl::StrCat(std::string(peer), ": ", why.message()));
  return why;
}

absl::StatusOr<auth::Principal> AccessControl::Check(const grpc::ServerContextBase& context,
                                                     std::string_view method) {
  return Check(context, method, context.peer());
}

absl::StatusOr<auth::Principal> AccessControl::Check(const grpc::ServerContextBase& context,
                                                     std::string_view method,
                                                     const std::string& peer) {
  auth::Principal principal;
  if (authenticator_ == nullptr) return principal;
  auth::Authenticator::Refusal refusal = authenticator_->Check(context, method, &principal);
  if (refusal.counter != nullptr) return Count(refusal.counter, peer, std::move(refusal.status));
  return principal;
}

absl::StatusOr<AccessControl::Slot> AccessControl::Enter(const grpc::ServerContextBase& context) {
  const std::string peer = context.peer();
  absl::StatusOr<auth::Principal> principal = Check(context, "Session", peer);
  if (!principal.ok()) return principal.status();
  return TakeSlot(peer, *std::move(principal), "sessions", max_streams_per_address_);
}

absl::StatusOr<AccessControl::Slot> AccessControl::EnterFollower(
    const grpc::ServerContextBase& context, bool timed) {
  return TakeSlot(context.peer(), {}, timed ? "followers at an interval" : "followers",
                  timed ? kMostTimedFollowers : max_streams_per_address_);
}

absl::StatusOr<AccessControl::Slot> AccessControl::TakeSlot(const std::string& peer,
                                                            auth::Principal principal,
                                                            std::string_view kind,
                                                            std::size_t most) {
  std::string key = absl::StrCat(std::string(kind), " from ", std::string(AddressOf(peer)));
  {
    const std::lock_guard lock(mutex_);
    std::size_t& streams = streams_[key];
    if (streams < most) {
      ++streams;
      return Slot(shared_from_this(), std::move(principal), std::move(key));
    }
  }
  return Count(
      refusal::kTooManyStreams, peer,
      absl::ResourceExhaustedError(absl::StrCat("there are ", most, " ", key, " already")));
}

absl::StatusOr<v1::HandshakeReply> AccessControl::Handshake(const grpc::ServerContextBase& context,
                                                            const v1::HandshakeRequest& request) {
  const std::string peer = context.peer();
  auto reply = authenticator_ == nullptr
                   ? absl::StatusOr<v1::HandshakeReply>(absl::UnauthenticatedError(
                         "this rendezvous runs without credentials (--insecure)"))
                   : authenticator_->Answer(request, peer);
  // A request without a scheme only asks which schemes this rendezvous accepts.
  if (reply.ok() || request.scheme() == v1::AUTH_SCHEME_UNSPECIFIED) return reply;
  const bool malformed = absl::IsInvalidArgument(reply.status());
  return Count(malformed ? refusal::kMalformed : refusal::kNoProof, peer, reply.status());
}

}  // namespace ddprun
