// Members: the connections to etcd's members, and who we are there. Internal to this folder.
//
// Thread-safe; its calls block, for as long as their caller allows.
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

// As gRPC counts time, on a clock that nobody sets. Deadline::max() is never.
gpr_timespec ToGrpc(Deadline deadline);

class Members {
 public:
  using ChannelPtr = std::shared_ptr<grpc::Channel>;
  // One call, on this channel; may be made again on another one.
  using Rpc = std::function<grpc::Status(const ChannelPtr& channel, grpc::ClientContext* context)>;

  // Errors as of Client::Create.
  static absl::StatusOr<std::shared_ptr<Members>> Create(const Options& options);
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  // A member that has said nothing for so long is left for the next one; the last one has all the
  // time that is left. What writes is made only at a member that is known to answer.
  static constexpr std::chrono::milliseconds kPatience{250};

  // Calls `rpc` at one member after the other until one answers. Where it is no read it is made
  // again only after it certainly had no effect. A member without a leader refuses it. Errors as of
  // Client::Transact.
  absl::Status Call(bool read_only, std::chrono::milliseconds limit, const Rpc& rpc);
  // Calls `rpc` at this member, whatever it knows of the others.
  absl::Status CallOne(const std::string& endpoint, std::chrono::milliseconds limit,
                       const Rpc& rpc);

  std::size_t size() const { return members_.size(); }
  const std::string& endpoint(std::size_t index) const { return members_[index]->endpoint; }
  // The member that is asked first.
  std::size_t preferred() const;
  // Another one is asked first from now on.
  void Leave(std::size_t index);
  // A channel that is connected, and `context` made ready for a call on it: refused by a member
  // without a leader, with our token. Aborted and others.
  absl::StatusOr<ChannelPtr> Prepare(std::size_t index, Deadline deadline,
                                     grpc::ClientContext* context);
  // What became of a call that Prepare was for. A member that gave no answer in time is connected
  // to anew; where it refuses our token, the next Prepare asks for another one.
  void OnAnswer(std::size_t index, const grpc::Status& status);

 private:
  struct Member {
    std::string endpoint;
    std::mutex mutex;
    // Guarded by mutex.
    ChannelPtr channel;    // null: none was made yet
    Deadline answered_at;  // the last time that it did
  };

  Members() = default;
  // The next call to it connects anew.
  void Disconnect(std::size_t index);
  // As its file has it now: it may have been changed since the last token.
  absl::StatusOr<std::string> Password() const;
  ChannelPtr NewChannel(const std::string& endpoint) const;
  absl::StatusOr<ChannelPtr> Connect(Member& member, Deadline deadline);
  // Aborted where it does not answer by then.
  absl::Status Probe(std::size_t index, const ChannelPtr& channel, Deadline deadline);
  absl::StatusOr<std::string> Token(Member& member, const ChannelPtr& channel, Deadline deadline);
  absl::Status CallAt(std::size_t index, bool read_only, Deadline share, Deadline end,
                      const Rpc& rpc);

  std::vector<std::unique_ptr<Member>> members_;  // constant, and so are these
  std::shared_ptr<auth::TlsIdentity> identity_;   // null: no TLS
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
