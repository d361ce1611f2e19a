#include "rendezvous/service/operator_service.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/grpc_handoff.h"
#include "rendezvous/wire/limits.h"

namespace ddprun {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

absl::Status CheckLength(const char* field, const std::string& text, std::size_t least,
                         std::size_t most) {
  if (text.size() >= least && text.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": expected ", least, " to ", most, " bytes (found ", text.size(), ")"));
}

std::int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// Ends a call that streams, before its first message.
template <class Message>
class RefusedStream final : public grpc::ServerWriteReactor<Message> {
 public:
  explicit RefusedStream(const absl::Status& why) { this->Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

// One Status call. Owned by itself until gRPC is done with it, which is not before Finish.
class StatusCall final : public grpc::ServerWriteReactor<v1::StatusPiece> {
 public:
  StatusCall(RoundLoop& loop, std::function<DaemonStatus()> daemon, std::string owner,
             std::string job)
      : daemon_(std::move(daemon)) {
    wire::HandToGrpc(this);
    // The answer comes on the loop's thread, which has no time: it only starts an operation, whose
    // end comes on a thread of gRPC.
    loop.GetStatus(std::move(owner), std::move(job), [this](std::vector<JobStatus> jobs) {
      jobs_ = std::move(jobs);
      wire::HandToGrpc(this);
      StartSendInitialMetadata();
    });
  }

  void OnSendInitialMetadataDone(bool ok) override {
    wire::TakeFromGrpc(this);
    if (!ok) {
      End(grpc::Status::CANCELLED);
      return;
    }
    text_ = StatusToJson(daemon_(), jobs_, UnixMs());
    jobs_ = {};
    WriteNext();
  }
  void OnWriteDone(bool ok) override {
    wire::TakeFromGrpc(this);
    if (ok) {
      WriteNext();
    } else {
      End(grpc::Status::CANCELLED);
    }
  }
  void OnDone() override {
    wire::TakeFromGrpc(this);
    delete this;
  }

 private:
  void End(const grpc::Status& status) {
    wire::HandToGrpc(this);
    Finish(status);
  }
  void WriteNext() {
    if (sent_ == text_.size()) {
      End(grpc::Status::OK);
      return;
    }
    const std::size_t size = std::min(kPieceBytes, text_.size() - sent_);
    piece_.set_text(text_.data() + sent_, size);
    sent_ += size;
    wire::HandToGrpc(this);
    StartWrite(&piece_);
  }

  const std::function<DaemonStatus()> daemon_;
  std::vector<JobStatus> jobs_;
  std::string text_;
  std::size_t sent_ = 0;
  v1::StatusPiece piece_;  // gRPC's while a write is outstanding
};

// One Events call. Owned by itself until gRPC is done with it.
class EventsCall final : public grpc::ServerWriteReactor<v1::EventLine> {
 public:
  EventsCall(std::shared_ptr<EventLog> log, EventLog::Filter filter, bool follow, bool only_new)
      : log_(std::move(log)), filter_(std::move(filter)), follow_(follow) {
    wire::HandToGrpc(this);
    // Before the place is taken: a line that comes between is at the place, and one that comes
    // after it wakes us.
    if (follow_) follower_ = log_->Follow([this] { Continue(); });
    const std::lock_guard lock(mutex_);
    place_ = only_new ? log_->End() : log_->Oldest();
    if (follow_ && follower_ == 0) {
      End(absl::ResourceExhaustedError(absl::StrCat("the rendezvous has ", EventLog::kMaxFollowers,
                                                    " followers, and no more are possible")));
      return;
    }
    StartSendInitialMetadata();
    ready_ = true;
    ContinueLocked();
  }

  void OnWriteDone(bool ok) override {
    wire::TakeFromGrpc(this);
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok && !cancelled_) {
      ContinueLocked();
    } else {
      End(absl::CancelledError());
    }
  }
  void OnCancel() override {
    wire::TakeFromGrpc(this);
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (!writing_) End(absl::CancelledError());
  }
  void OnDone() override {
    wire::TakeFromGrpc(this);
    if (follower_ != 0) log_->Unfollow(follower_);
    { const std::lock_guard lock(mutex_); }  // whoever called Finish has left
    delete this;
  }

 private:
  void Continue() {
    const std::lock_guard lock(mutex_);
    ContinueLocked();
  }
  void ContinueLocked() {
    if (!ready_ || writing_ || ended_) return;
    std::shared_ptr<const EventLog::Line> line;
    const absl::Status status = log_->Next(filter_, &place_, &line);
    if (absl::IsOutOfRange(status)) {
      End(absl::ResourceExhaustedError(status.message()));
    } else if (line != nullptr) {
      message_.set_json(line->json);
      writing_ = true;
      wire::HandToGrpc(this);
      StartWrite(&message_);
    } else if (!follow_) {
      End(absl::OkStatus());
    } else if (!status.ok()) {
      End(status);
    }
  }
  void End(const absl::Status& status) {
    if (std::exchange(ended_, true)) return;
    wire::HandToGrpc(this);
    Finish(ToGrpc(status));
  }

  const std::shared_ptr<EventLog> log_;
  const EventLog::Filter filter_;
  const bool follow_;
  std::uint64_t follower_ = 0;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::uint64_t place_ = 0;
  bool ready_ = false;
  bool writing_ = false;
  bool cancelled_ = false;
  bool ended_ = false;
  v1::EventLine message_;  // gRPC's while `writing_`
};

// The end of a call that the loop answers with a sentence. Nothing of the call but the reactor and
// the answer may be touched in it.
RoundLoop::AnswerCallback Answer(grpc::ServerUnaryReactor* reactor, v1::OperatorAnswer* answer) {
  return [reactor, answer](const absl::StatusOr<std::string>& result) {
    if (result.ok()) answer->set_text(*result);
    reactor->Finish(ToGrpc(result.status()));
  };
}

}  // namespace

grpc::ServerWriteReactor<v1::StatusPiece>* OperatorService::Status(
    grpc::CallbackServerContext* context, const v1::StatusRequest* request) {
  wire::TakeFromGrpc(this);
  absl::StatusOr<std::string> owner = options_.authorize(*context, "Status");
  absl::Status status = owner.status();
  if (status.ok()) status = CheckLength("job", request->job(), 0, wire::kMaxJobBytes);
  if (!status.ok()) return new RefusedStream<v1::StatusPiece>(status);
  return new StatusCall(*options_.loop, options_.daemon, *std::move(owner), request->job());
}

grpc::ServerUnaryReactor* OperatorService::StopJob(grpc::CallbackServerContext* context,
                                                   const v1::StopRequest* request,
                                                   v1::OperatorAnswer* answer) {
  wire::TakeFromGrpc(this);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  absl::StatusOr<std::string> owner = options_.authorize(*context, "StopJob");
  absl::Status status = owner.status();
  if (status.ok()) status = CheckLength("job", request->job(), 1, wire::kMaxJobBytes);
  if (status.ok()) {
    options_.loop->StopJob(*std::move(owner), request->job(), request->save(),
                           Answer(reactor, answer));
  } else {
    reactor->Finish(ToGrpc(status));
  }
  return reactor;
}

grpc::ServerUnaryReactor* OperatorService::DrainNode(grpc::CallbackServerContext* context,
                                                     const v1::DrainRequest* request,
                                                     v1::OperatorAnswer* answer) {
  wire::TakeFromGrpc(this);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  absl::StatusOr<std::string> owner = options_.authorize(*context, "DrainNode");
  absl::Status status = owner.status();
  if (status.ok()) status = CheckLength("host", request->host(), 1, wire::kMaxHostBytes);
  if (status.ok()) status = CheckLength("job", request->job(), 0, wire::kMaxJobBytes);
  if (status.ok()) {
    options_.loop->DrainNode(*std::move(owner), request->job(), request->host(),
                             Answer(reactor, answer));
  } else {
    reactor->Finish(ToGrpc(status));
  }
  return reactor;
}

grpc::ServerWriteReactor<v1::EventLine>* OperatorService::Events(
    grpc::CallbackServerContext* context, const v1::EventsRequest* request) {
  wire::TakeFromGrpc(this);
  absl::StatusOr<std::string> owner = options_.authorize(*context, "Events");
  absl::Status status = owner.status();
  if (status.ok()) status = CheckLength("job", request->job(), 0, wire::kMaxJobBytes);
  if (!status.ok()) return new RefusedStream<v1::EventLine>(status);
  EventLog::Filter filter;
  filter.owner = *std::move(owner);
  filter.job = request->job();
  filter.since_ms = request->since_ms();
  return new EventsCall(options_.events, std::move(filter), request->follow(), request->only_new());
}

}  // namespace ddprun
