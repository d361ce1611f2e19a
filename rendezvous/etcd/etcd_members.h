// Members: the connections to etcd's members, with this client's credentials. Internal to this
// folder.
//
// Thread-safe. Calls block, at most for the time limit that their caller gives. Exception: a
// request for a token may take 2 s, even if the limit is shorter.
#ifndef DDPRUN_RENDEZVOUS_ETCD_ETCD_MEMBERS_H_
#define DDPRUN_RENDEZVOUS_ETCD_ETCD_MEMBERS_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/etcd/etcd_client.h"
#include "rendezvous/etcd/etcd_error.h"

namespace ddprun::etcd {

using Deadline = std::chrono::steady_clock::time_point;

// In gRPC's type, on the monotonic clock. Deadline::max() means never.
gpr_timespec ToGrpc(Deadline deadline);

class Members {
 public:
  using ChannelPtr = std::shared_ptr<grpc::Channel>;
  // Makes one call on this channel. May be called again with another channel.
  using Rpc = std::function<grpc::Status(const ChannelPtr& channel, grpc::ClientContext* context)>;

  // Errors: those of Client::Create.
  static absl::StatusOr<std::shared_ptr<Members>> Create(const Options& options);
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  // If a member is silent for this long, or for half of the time left if that is shorter, the next
  // member is tried. The last member has all the time left. A write is sent only to a member that
  // has just answered; then this member has all the time left.
  static constexpr std::chrono::milliseconds kPatience{250};

  // Calls `rpc` at one member after the other until one answers. A write is repeated only if it
  // certainly had no effect. A member without a leader refuses the call. Errors like
  // Client::Transact.
  absl::Status Call(bool read_only, std::chrono::milliseconds limit, const Rpc& rpc);
  // Calls `rpc` at this member, even if it has no leader.
  absl::Status CallOne(const std::string& endpoint, std::chrono::milliseconds limit,
                       const Rpc& rpc);

  std::size_t size() const { return members_.size(); }
  const std::string& endpoint(std::size_t index) const { return members_[index]->endpoint; }
  // The member that is asked first.
  std::size_t preferred() const;
  // If this member is the preferred one, the next member is preferred from now on.
  void Leave(std::size_t index);
  // Returns a connected channel, and prepares `context` for a call on it: adds our token, and asks
  // a member without a leader to refuse the call. Errors: Aborted and others.
  absl::StatusOr<ChannelPtr> Prepare(std::size_t index, Deadline deadline,
                                     grpc::ClientContext* context);
  // Takes the result of a prepared call. If the member gave no answer in time, the next call opens
  // a new connection to it. If it refused our token, the next Prepare gets another token.
  void OnAnswer(std::size_t index, const grpc::Status& status);

 private:
  struct Member {
    std::string endpoint;
    std::mutex mutex;
    // Guarded by mutex.
    ChannelPtr channel;    // null: none was made yet
    Deadline answered_at;  // when it last answered
  };

  Members() = default;
  // The next call to this member opens a new connection.
  void Disconnect(std::size_t index);
  // Reads the file again: the password may have changed since the last token.
  absl::StatusOr<std::string> Password() const;
  ChannelPtr NewChannel(const std::string& endpoint) const;
  absl::StatusOr<ChannelPtr> Connect(Member& member, Deadline deadline);
  // Aborted if the member does not answer by `deadline`.
  absl::Status Probe(std::size_t index, const ChannelPtr& channel, Deadline deadline);
  absl::StatusOr<std::string> Token(Member& member, const ChannelPtr& channel, Deadline deadline);
  absl::Status CallAt(std::size_t index, bool read_only, Deadline share, Deadline end,
                      const Rpc& rpc);

  // Constant after Create.
  std::vector<std::unique_ptr<Member>> members_;
  std::shared_ptr<auth::TlsIdentity> identity_;  // null: no TLS
  OurSide side_ = OurSide::kPlain;
  std::string user_;
  std::string password_file_;

  std::mutex token_mutex_;  // held while a token is asked for; taken before mutex_
  mutable std::mutex mutex_;
  std::size_t preferred_ = 0;  // guarded by mutex_
  std::string token_;          // guarded by mutex_; "": none was given yet
};

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_ETCD_MEMBERS_H_
