#include "rendezvous/service/agent_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/auth/refusal_counters.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

constexpr int kCallsAtATime = 8;  // of a method that each agent calls

}  // namespace

AgentService::AgentService(std::shared_ptr<JobLoop> loop, std::shared_ptr<AccessControl> access,
                           const DescriptorGuard* descriptors, std::shared_ptr<LeaderBoard> board)
    : loop_(std::move(loop)),
      access_(std::move(access)),
      descriptors_(descriptors),
      board_(std::move(board)) {}

void AgentService::Serve(CallQueues* queues, SlowCalls* slow) {
  // A call is served on another thread only if it may take long, because that costs a thread
  // switch.
  const auto serve = [this, slow]<class Call>(void (AgentService::*method)(std::unique_ptr<Call>)) {
    return [this, slow, method](std::unique_ptr<Call> call) {
      if (!access_->may_wait()) return (this->*method)(std::move(call));
      slow->Post(std::move(call), [this, method](std::unique_ptr<Call> waited) {
        (this->*method)(std::move(waited));
      });
    };
  };
  AcceptCalls<SessionCall>(
      queues, kCallsAtATime,
      [this](SessionCall& call, auto... where) {
        service_.RequestSession(&call.context, &call.responder, where...);
      },
      serve(&AgentService::BeginSession));
  AcceptCalls<GoneCall>(
      queues, 1,
      [this](GoneCall& call, auto... where) {
        service_.RequestReportGone(&call.context, &call.request, &call.responder, where...);
      },
      serve(&AgentService::ReportGone));
  AcceptCalls<HandshakeCall>(
      queues, kCallsAtATime,
      [this](HandshakeCall& call, auto... where) {
        service_.RequestHandshake(&call.context, &call.request, &call.responder, where...);
      },
      serve(&AgentService::Handshake));
  AcceptCalls<FollowCall>(
      queues, kCallsAtATime,
      [this](FollowCall& call, auto... where) {
        service_.RequestFollow(&call.context, &call.request, &call.responder, where...);
      },
      [this](std::unique_ptr<FollowCall> call) { Follow(std::move(call)); });
}

void AgentService::Handshake(std::unique_ptr<HandshakeCall> call) {
  const auto answer = access_->Handshake(call->context, call->request);
  HandshakeCall::Finish(std::move(call), answer);
}

void AgentService::BeginSession(std::unique_ptr<SessionCall> call) {
  if (absl::Status room = descriptors_->CheckSession(); !room.ok()) {
    access_->refusals().Count(refusal::kNoDescriptors,
                              absl::StrCat(call->context.peer(), ": ", room.message()));
    RefuseCall(std::move(call), room);
    return;
  }
  absl::StatusOr<AccessControl::Slot> slot = access_->Enter(call->context);
  if (!slot.ok()) {
    RefuseCall(std::move(call), slot.status());
    return;
  }
  Session::Begin(loop_, *std::move(slot), std::move(call));
}

absl::StatusOr<AccessControl::Slot> AgentService::EnterFollower(const FollowCall& call,
                                                                Duration interval) {
  if (absl::Status room = descriptors_->CheckSession(); !room.ok()) {
    access_->refusals().Count(refusal::kNoDescriptors,
                              absl::StrCat(call.context.peer(), ": ", room.message()));
    return room;
  }
  return access_->EnterFollower(call.context, interval > Duration(0));
}

void AgentService::Follow(std::unique_ptr<FollowCall> call) {
  if (board_ == nullptr) {
    return FollowCall::Refuse(std::move(call),
                              absl::UnimplementedError("this rendezvous is the only one"));
  }
  const absl::StatusOr<Duration> interval = FollowCall::IntervalOf(call->request);
  if (!interval.ok()) {
    access_->refusals().Count(
        refusal::kMalformed, absl::StrCat(call->context.peer(), ": ", interval.status().message()));
    return FollowCall::Refuse(std::move(call), interval.status());
  }
  auto slot = EnterFollower(*call, *interval);
  if (!slot.ok()) return FollowCall::Refuse(std::move(call), slot.status());
  FollowCall::Begin(std::move(call), board_, *std::move(slot), *interval);
}

void AgentService::ReportGone(std::unique_ptr<GoneCall> call) {
  const absl::StatusOr<auth::Principal> principal = access_->Check(call->context, "ReportGone");
  absl::StatusOr<Header> header =
      principal.ok() ? wire::FromProto(call->request) : principal.status();
  if (!header.ok()) {
    if (principal.ok()) {
      access_->refusals().Count(
          refusal::kMalformed, absl::StrCat(call->context.peer(), ": ", header.status().message()));
    }
    GoneCall::Finish(std::move(call), header.status());
    return;
  }
  loop_->OnAgentGone(
      *std::move(header), *principal,
      [access = access_, call = call.release()](const absl::Status& status) {  // called once
        std::unique_ptr<GoneCall> owned(call);
        if (absl::IsPermissionDenied(status)) {
          access->refusals().Count(refusal::kOtherOwner,
                                   absl::StrCat(owned->context.peer(), ": ", status.message()));
        }
        GoneCall::Finish(std::move(owned),
                         status.ok() ? absl::StatusOr<v1::GoneReceived>(v1::GoneReceived())
                                     : absl::StatusOr<v1::GoneReceived>(status));
      });
}

}  // namespace ddprun
