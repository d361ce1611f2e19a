#include "rendezvous/service/operators/operator_service.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/refusal_counters.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/translate.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;

std::int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// Writes the answer of a Status call, in pieces. Owns itself until gRPC has finished with it.
class StatusWriter {
 public:
  using Call = WriterCall<v1::StatusRequest, v1::StatusPiece>;

  StatusWriter(std::unique_ptr<Call> call, std::string text)
      : call_(std::move(call)), text_(std::move(text)) {}

  void WriteNext() {
    if (sent_ == text_.size()) {
      call_->responder.Finish(grpc::Status::OK, finish_.Tag());
      return;
    }
    const std::size_t size = std::min(kPieceBytes, text_.size() - sent_);
    v1::StatusPiece piece;
    piece.set_text(text_.data() + sent_, size);
    sent_ += size;
    call_->responder.Write(piece, write_.Tag());
  }

 private:
  void OnWritten(bool ok) {
    if (ok) {
      WriteNext();
    } else {
      call_->responder.Finish(grpc::Status::CANCELLED, finish_.Tag());
    }
  }
  void OnFinished(bool) { delete this; }

  const std::unique_ptr<Call> call_;
  const std::string text_;
  std::size_t sent_ = 0;
  Operation<StatusWriter> write_{this, &StatusWriter::OnWritten};
  Operation<StatusWriter> finish_{this, &StatusWriter::OnFinished};
};

// A callback that ends a call with the loop's answer.
template <class Call>
JobLoop::AnswerCallback AnswerTo(std::unique_ptr<Call> owned) {
  return [released = owned.release()](const absl::StatusOr<std::string>& result) {  // called once
    std::unique_ptr<Call> call(released);
    if (!result.ok()) {
      Call::Finish(std::move(call), result.status());
      return;
    }
    v1::OperatorAnswer answer;
    answer.set_text(*result);
    Call::Finish(std::move(call), answer);
  };
}

}  // namespace

void OperatorService::Serve(CallQueues* queues, TaskQueue* tasks, SlowCalls* slow) {
  tasks_ = tasks;
  const auto accept = [&]<class Call>(auto request,
                                      void (OperatorService::*serve)(std::unique_ptr<Call>)) {
    AcceptCalls<Call>(
        queues, 1,
        [this, request](Call& call, auto... where) {
          (service_.*request)(&call.context, &call.request, &call.responder, where...);
        },
        [this, slow, serve](std::unique_ptr<Call> call) {
          slow->Post(std::move(call), [this, serve](std::unique_ptr<Call> waited) {
            (this->*serve)(std::move(waited));
          });
        });
  };
  using Service = v1::Operator::AsyncService;
  accept(&Service::RequestStatus, &OperatorService::Status);
  accept(&Service::RequestEvents, &OperatorService::Events);
  accept(&Service::RequestStopJob, &OperatorService::StopJob);
  accept(&Service::RequestDrainNode, &OperatorService::DrainNode);
  accept(&Service::RequestStacks, &OperatorService::Stacks);
  accept(&Service::RequestLogs, &OperatorService::Logs);
  accept(&Service::RequestOpenPage, &OperatorService::OpenPage);
}

absl::Status OperatorService::CheckLength(const grpc::ServerContextBase& context, const char* field,
                                          const std::string& text, std::size_t least,
                                          std::size_t most) const {
  if (text.size() >= least && text.size() <= most) return absl::OkStatus();
  absl::Status why = absl::InvalidArgumentError(
      absl::StrCat(field, ": expected ", least, " to ", most, " bytes (found ", text.size(), ")"));
  options_.refused(context, refusal::kMalformed, why);
  return why;
}

void OperatorService::Status(std::unique_ptr<StatusCall> call) {
  absl::StatusOr<std::string> owner = options_.authorize(call->context, "Status");
  absl::Status status = owner.status();
  const std::string job = call->request.job();
  if (status.ok()) status = CheckLength(call->context, "job", job, 0, wire::kMaxJobBytes);
  if (!status.ok()) {
    RefuseCall(std::move(call), status);
    return;
  }
  options_.loop->GetStatus(
      *std::move(owner), job,
      [this, released = call.release()](absl::StatusOr<std::vector<JobStatus>> jobs) {
        if (!jobs.ok()) {  // called once
          RefuseCall(std::unique_ptr<StatusCall>(released), jobs.status());
          return;
        }
        tasks_->Post([this, released, jobs = *std::move(jobs)] {
          auto* const writer = new StatusWriter(std::unique_ptr<StatusCall>(released),
                                                StatusToJson(options_.daemon(), jobs, UnixMs()));
          writer->WriteNext();
        });
      });
}

void OperatorService::StopJob(std::unique_ptr<StopCall> call) {
  absl::StatusOr<std::string> owner = options_.authorize(call->context, "StopJob");
  absl::Status status = owner.status();
  const std::string job = call->request.job();
  if (status.ok()) status = CheckLength(call->context, "job", job, 1, wire::kMaxJobBytes);
  if (!status.ok()) {
    StopCall::Finish(std::move(call), status);
    return;
  }
  const bool save = call->request.save();
  options_.loop->StopJob(*std::move(owner), job, save, AnswerTo(std::move(call)));
}

void OperatorService::DrainNode(std::unique_ptr<DrainCall> call) {
  absl::StatusOr<std::string> owner = options_.authorize(call->context, "DrainNode");
  absl::Status status = owner.status();
  const std::string host = call->request.host();
  const std::string job = call->request.job();
  if (status.ok()) status = CheckLength(call->context, "host", host, 1, wire::kMaxHostBytes);
  if (status.ok()) status = CheckLength(call->context, "job", job, 0, wire::kMaxJobBytes);
  if (!status.ok()) {
    DrainCall::Finish(std::move(call), status);
    return;
  }
  options_.loop->DrainNode(*std::move(owner), job, host, AnswerTo(std::move(call)));
}

void OperatorService::Stacks(std::unique_ptr<StacksCall> call) {
  absl::StatusOr<std::string> owner = options_.authorize(call->context, "Stacks");
  absl::Status status = owner.status();
  const std::string job = call->request.job();
  if (status.ok()) status = CheckLength(call->context, "job", job, 1, wire::kMaxJobBytes);
  if (!status.ok()) {
    StacksCall::Finish(std::move(call), status);
    return;
  }
  options_.loop->GetStacks(
      *std::move(owner), job,
      [this, call = call.release()](absl::StatusOr<JobLoop::Stacks> stacks) {  // called once
        tasks_->Post([call, stacks = std::move(stacks)] {
          std::unique_ptr<StacksCall> owned(call);
          if (!stacks.ok()) {
            StacksCall::Finish(std::move(owned), stacks.status());
            return;
          }
          v1::StacksAnswer answer;
          *answer.mutable_tree() = wire::ToProto(stacks->tree);
          for (const std::string& host : stacks->missing) answer.add_missing(host);
          StacksCall::Finish(std::move(owned), answer);
        });
      });
}

void OperatorService::Logs(std::unique_ptr<LogsCall> call) {
  absl::StatusOr<std::string> owner = options_.authorize(call->context, "Logs");
  absl::Status status = owner.status();
  if (status.ok())
    status = CheckLength(call->context, "job", call->request.job(), 1, wire::kMaxJobBytes);
  if (!status.ok()) return LogsCall::Refuse(std::move(call), status);
  absl::StatusOr<LogRequest> request = ToLogRequest(call->request);
  if (!request.ok()) {
    options_.refused(call->context, refusal::kMalformed, request.status());
    return LogsCall::Refuse(std::move(call), request.status());
  }
  LogsCall::Begin(std::move(call), options_.loop, *std::move(owner), *std::move(request),
                  options_.refused);
}

void OperatorService::OpenPage(std::unique_ptr<OpenPageCall> call) {
  absl::StatusOr<std::string> owner = options_.authorize(call->context, "OpenPage");
  absl::Status status = owner.status();
  const std::string job = call->request.job();
  if (status.ok()) status = CheckLength(call->context, "job", job, 0, wire::kMaxJobBytes);
  if (status.ok() && !options_.open_page) {
    status = absl::FailedPreconditionError(
        "this rendezvous serves no page: it was started without --http");
  }
  if (!status.ok()) {
    OpenPageCall::Finish(std::move(call), status);
    return;
  }
  options_.loop->GetSummaries(
      *owner, [this, owner = *owner, job, call = call.release()](  // called once
                  const absl::StatusOr<std::vector<JobLoop::Summary>>& jobs) {
        std::unique_ptr<OpenPageCall> owned(call);
        if (!jobs.ok()) return OpenPageCall::Finish(std::move(owned), jobs.status());
        const bool found = job.empty() || std::any_of(jobs->begin(), jobs->end(),
                                                      [&](const JobLoop::Summary& each) {
                                                        return each.job.job == job;
                                                      });
        if (!found) {
          OpenPageCall::Finish(std::move(owned),
                               absl::NotFoundError(absl::StrCat("there is ", NoSuchJob(job))));
          return;
        }
        const PageLink link = options_.open_page(owner);
        v1::OpenPageAnswer answer;
        answer.set_host(link.host);
        answer.set_port(static_cast<std::uint32_t>(link.port));
        answer.set_code(link.code);
        answer.set_certificate_sha256(link.certificate_sha256);
        answer.set_self_made(link.self_made);
        OpenPageCall::Finish(std::move(owned), answer);
      });
}

void OperatorService::Events(std::unique_ptr<EventsCall> call) {
  absl::StatusOr<std::string> owner = options_.authorize(call->context, "Events");
  absl::Status status = owner.status();
  if (status.ok())
    status = CheckLength(call->context, "job", call->request.job(), 0, wire::kMaxJobBytes);
  if (!status.ok()) return EventsCall::Refuse(std::move(call), status);
  options_.loop->MayAnswer(
      [this, owner = *std::move(owner), call = call.release()](const absl::Status& why) {
        std::unique_ptr<EventsCall> owned(call);  // called once
        if (!why.ok()) return EventsCall::Refuse(std::move(owned), why);
        EventsCall::Begin(std::move(owned), options_.events, owner, options_.refused);
      });
}

}  // namespace ddprun
