#include "rendezvous/client/follower.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/client/channel_source.h"
#include "rendezvous/client/connect_error.h"
#include "rendezvous/wire/grpc_handoff.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxLeaderBytes = 300;

Follower::Said FromProto(const v1::Leading& leading) {
  Follower::Said said;
  switch (leading.role()) {
    case 1:
      said.role = Follower::Role::kLeads;
      break;
    case 2:
      said.role = Follower::Role::kCutOff;
      break;
    case 3:
      said.role = Follower::Role::kHandsOver;
      break;
    default:  // also a value from a later version
      break;
  }
  said.term = {leading.cluster(), leading.term()};
  if (leading.leader().size() <= kMaxLeaderBytes) said.leader = leading.leader();
  return said;
}

Follower::Ended FromStatus(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return {"it ended"};
    case grpc::StatusCode::UNIMPLEMENTED:
      return {"it is not one of several", /*alone=*/true};
    case grpc::StatusCode::UNAVAILABLE:
      if (const auto trouble = TlsTrouble(status.error_message())) {
        return {absl::StrCat("no trust: ", *trouble)};
      }
      return {RootOfError(status.error_message())};
    default:
      return {status.error_message()};
  }
}

class FollowCall final : public Follower, private grpc::ClientReadReactor<v1::Leading> {
 public:
  FollowCall(std::shared_ptr<ChannelSource> source, Handler handler)
      : source_(std::move(source)),
        connection_(source_->Get()),
        stub_(v1::Rendezvous::NewStub(connection_.channel)),
        handler_(std::move(handler)) {
    wire::HandToGrpc(this);
    stub_->async()->Follow(&context_, &request_, this);
    StartRead(&leading_);
    StartCall();
  }
  ~FollowCall() override {
    context_.TryCancel();
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return over_; });
  }
  FollowCall(const FollowCall&) = delete;
  FollowCall& operator=(const FollowCall&) = delete;

 private:
  void OnReadDone(bool ok) override {
    wire::TakeFromGrpc(this);
    if (!ok) return;  // OnDone says why
    answered_ = true;
    handler_(FromProto(leading_));
    wire::HandToGrpc(this);
    StartRead(&leading_);
  }

  void OnDone(const grpc::Status& status) override {
    wire::TakeFromGrpc(this);
    Ended ended = FromStatus(status);
    ended.again = source_->OnEnd(connection_, status, answered_);
    handler_(std::move(ended));
    const std::lock_guard lock(mutex_);
    over_ = true;
    ended_.notify_all();
  }

  const std::shared_ptr<ChannelSource> source_;
  const ChannelSource::Connection connection_;
  const std::unique_ptr<v1::Rendezvous::Stub> stub_;
  const Handler handler_;
  const v1::FollowRequest request_;  // interval_ms is 0: an answer at each change only
  // Used by gRPC until OnDone.
  grpc::ClientContext context_;
  v1::Leading leading_;
  bool answered_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<Follower> Follow(std::shared_ptr<ChannelSource> source, Follower::Handler handler) {
  return std::make_unique<FollowCall>(std::move(source), std::move(handler));
}

}  // namespace ddprun
