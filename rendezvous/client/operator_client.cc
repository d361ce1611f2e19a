#include "rendezvous/client/operator_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <functional>
#include <stop_token>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/operator.grpc.pb.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/client/channel.h"
#include "rendezvous/client/channel_source.h"
#include "rendezvous/client/connect_error.h"
#include "rendezvous/client/leader_search.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

// After a leader's loss a standby takes over within this time, unless etcd is lost too.
constexpr std::chrono::milliseconds kForTakeover{3000};

absl::Status FromGrpc(const std::string& endpoint, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string& text = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      if (const auto said = SaidByRendezvous(text)) {
        return absl::UnavailableError(absl::StrCat("the rendezvous at ", endpoint, " ", *said));
      }
      if (const auto trouble = TlsTrouble(text)) {
        return absl::UnavailableError(
            absl::StrCat("no trusted connection to the rendezvous at ", endpoint, ": ", *trouble));
      }
      return absl::UnavailableError(absl::StrCat(
          "cannot reach the rendezvous at ", endpoint, " (--rdzv-endpoint): ", RootOfError(text),
          IsClosedByPeer(text) ? "; does it ask for TLS (--tls-ca)?" : ""));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::UnavailableError(
          absl::StrCat("the rendezvous at ", endpoint, " does not answer"));
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::UnimplementedError(
          absl::StrCat("the rendezvous at ", endpoint,
                       " does not answer operators: it is an earlier version, or not ddprun"));
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          absl::StrCat("the rendezvous at ", endpoint, " refused: ", text));
    default:
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()), text);
  }
}

}  // namespace

// While it lives, a request to stop cancels the call of `context`.
class OperatorClient::CancelOnStop {
 public:
  CancelOnStop(const std::stop_token& stop, grpc::ClientContext* context)
      : callback_(stop, [context] { context->TryCancel(); }) {}

 private:
  const std::stop_callback<std::function<void()>> callback_;
};

struct OperatorClient::Grpc {
  explicit Grpc(const Options& options)
      : alone(options.places.front().endpoint, options.places.front().credentials) {
    if (options.places.size() == 1) return;
    for (const RendezvousPlace& place : options.places) {
      several.push_back(std::make_shared<ChannelSource>(place.endpoint, place.credentials));
    }
  }

  // Connects, or returns the reason at once. Adds the credentials for `method` to `context`; the
  // caller then makes the call on `stub`.
  absl::Status Prepare(const Options& options, const std::string& method,
                       std::chrono::system_clock::time_point deadline,
                       grpc::ClientContext* context) {
    if (!several.empty()) {
      const LeaderFound found =
          FindLeader(several, std::min(options.timeout, kForTakeover), options.stop);
      if (!found.place) {
        return absl::UnavailableError(
            absl::StrCat("no rendezvous leads (--rdzv-endpoint): ", found.said));
      }
      place = *found.place;
      channel = several[place]->Get().channel;
    } else {
      const grpc::Status reached = alone.Reach(deadline, options.stop);
      if (reached.error_code() == grpc::StatusCode::UNAVAILABLE ||
          reached.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
        return FromGrpc(options.places[place].endpoint, reached);
      }
      channel = alone.channel();
    }
    if (options.stop.stop_requested()) return absl::CancelledError();
    stub = v1::Operator::NewStub(channel);
    const RendezvousPlace& asked = options.places[place];
    if (asked.credentials == nullptr) return absl::OkStatus();
    const auto rendezvous = v1::Rendezvous::NewStub(channel);
    const absl::Status status =
        asked.credentials->Authorize(*rendezvous, method, deadline, context, options.stop);
    if (status.ok()) return status;
    return FromGrpc(asked.endpoint,
                    {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())});
  }

  // Prepares and makes one call. `make` gets the context and makes the call on `stub`. If one of
  // several rendezvous has just lost the lead, another one is asked.
  template <class Make>
  absl::Status Try(const Options& options, const std::string& method, Make make) {
    const auto deadline = std::chrono::system_clock::now() + options.timeout;
    for (bool again = !several.empty();; again = false) {
      grpc::ClientContext context;
      context.set_deadline(deadline);
      const CancelOnStop cancel(options.stop, &context);
      absl::Status status = Prepare(options, method, deadline, &context);
      if (status.ok()) status = FromGrpc(options.places[place].endpoint, make(context));
      if (!absl::IsUnavailable(status) || !again) return status;
    }
  }

  template <class Request, class Answer>
  absl::StatusOr<Answer> Call(const Options& options, const std::string& method,
                              const Request& request,
                              grpc::Status (v1::Operator::Stub::*rpc)(grpc::ClientContext*,
                                                                      const Request&, Answer*)) {
    Answer answer;
    const absl::Status status = Try(options, method, [&](grpc::ClientContext& context) {
      return ((*stub).*rpc)(&context, request, &answer);
    });
    if (!status.ok()) return status;
    return answer;
  }

  // The same, for an answer with a text.
  template <class Request>
  absl::StatusOr<std::string> Ask(const Options& options, const std::string& method,
                                  const Request& request,
                                  grpc::Status (v1::Operator::Stub::*rpc)(grpc::ClientContext*,
                                                                          const Request&,
                                                                          v1::OperatorAnswer*)) {
    const auto answer = Call(options, method, request, rpc);
    if (!answer.ok()) return answer.status();
    return answer->text();
  }

  RenewableChannel alone;                               // if there is one place
  std::vector<std::shared_ptr<ChannelSource>> several;  // else, by place
  // Set by Prepare.
  int place = 0;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Operator::Stub> stub;
};

class OperatorClient::EventStream final : public OperatorClient::Events {
 public:
  explicit EventStream(const std::stop_token& stop) : cancel_(stop, &context_) {}
  ~EventStream() override {
    if (reader_ == nullptr || finished_) return;
    context_.TryCancel();
    (void)reader_->Finish();
  }

  bool Next(std::string* line) override {
    v1::EventLine message;
    if (!reader_->Read(&message)) return false;
    *line = std::move(*message.mutable_json());
    return true;
  }
  absl::Status Finish() override {
    finished_ = true;
    return FromGrpc(endpoint_, reader_->Finish());
  }
  void Cancel() override { context_.TryCancel(); }

  grpc::ClientContext& context() { return context_; }
  void Begin(std::string endpoint, v1::Operator::Stub& stub, const v1::EventsRequest& request) {
    endpoint_ = std::move(endpoint);
    reader_ = stub.Events(&context_, request);
    reader_->WaitForInitialMetadata();
  }

 private:
  std::string endpoint_;  // from Begin
  grpc::ClientContext context_;
  const CancelOnStop cancel_;
  std::unique_ptr<grpc::ClientReader<v1::EventLine>> reader_;
  bool finished_ = false;
};

class OperatorClient::LogStreamOfCall final : public OperatorClient::Logs {
 public:
  explicit LogStreamOfCall(const std::stop_token& stop) : cancel_(stop, &context_) {}
  ~LogStreamOfCall() override {
    if (reader_ == nullptr || finished_) return;
    context_.TryCancel();
    (void)reader_->Finish();
  }

  bool Next(LogPart* part) override {
    v1::LogsPiece piece;
    if (!reader_->Read(&piece)) return false;
    part->source.generation = Generation{static_cast<int>(piece.generation())};
    part->source.rank = Rank{static_cast<int>(piece.rank())};
    part->source.stream =
        piece.stream() == v1::LOG_STREAM_STDERR ? LogStream::kStderr : LogStream::kStdout;
    part->text = piece.text();
    part->about = piece.about();
    part->end = piece.has_end();
    part->note = piece.end();
    return true;
  }
  absl::Status Finish() override {
    finished_ = true;
    return FromGrpc(endpoint_, reader_->Finish());
  }

  grpc::ClientContext& context() { return context_; }
  void Begin(std::string endpoint, v1::Operator::Stub& stub, const v1::LogsRequest& request) {
    endpoint_ = std::move(endpoint);
    reader_ = stub.Logs(&context_, request);
  }

 private:
  std::string endpoint_;  // from Begin
  grpc::ClientContext context_;
  const CancelOnStop cancel_;
  std::unique_ptr<grpc::ClientReader<v1::LogsPiece>> reader_;
  bool finished_ = false;
};

OperatorClient::OperatorClient(Options options)
    : options_(std::move(options)), grpc_(std::make_unique<Grpc>(options_)) {}

OperatorClient::~OperatorClient() = default;

const std::string& OperatorClient::endpoint() const {
  return options_.places[grpc_->place].endpoint;
}

absl::StatusOr<std::string> OperatorClient::Status(const std::string& job) {
  v1::StatusRequest request;
  request.set_job(job);
  std::string text;
  const absl::Status status = grpc_->Try(options_, "Status", [&](grpc::ClientContext& context) {
    text.clear();
    const auto reader = grpc_->stub->Status(&context, request);
    v1::StatusPiece piece;
    while (reader->Read(&piece)) text += piece.text();
    return reader->Finish();
  });
  if (!status.ok()) return status;
  return text;
}

absl::StatusOr<std::string> OperatorClient::StopJob(const std::string& job, bool save) {
  v1::StopRequest request;
  request.set_job(job);
  request.set_save(save);
  return grpc_->Ask(options_, "StopJob", request, &v1::Operator::Stub::StopJob);
}

absl::StatusOr<std::string> OperatorClient::DrainNode(const std::string& host,
                                                      const std::string& job) {
  v1::DrainRequest request;
  request.set_host(host);
  request.set_job(job);
  return grpc_->Ask(options_, "DrainNode", request, &v1::Operator::Stub::DrainNode);
}

absl::StatusOr<OperatorClient::JobStacks> OperatorClient::Stacks(const std::string& job) {
  v1::StacksRequest request;
  request.set_job(job);
  const auto answer = grpc_->Call(options_, "Stacks", request, &v1::Operator::Stub::Stacks);
  if (!answer.ok()) return answer.status();
  const auto encoded = wire::FromProto(answer->tree());
  auto tree = encoded.ok() ? StackTree::Decode(*encoded) : encoded.status();
  if (!tree.ok()) {
    return absl::InternalError(
        absl::StrCat("the rendezvous at ", endpoint(), " answered with ", tree.status().message()));
  }
  return JobStacks{*std::move(tree), {answer->missing().begin(), answer->missing().end()}};
}

absl::StatusOr<OperatorClient::Page> OperatorClient::OpenPage(const std::string& job) {
  v1::OpenPageRequest request;
  request.set_job(job);
  const auto answer = grpc_->Call(options_, "OpenPage", request, &v1::Operator::Stub::OpenPage);
  if (!answer.ok()) return answer.status();
  return Page{answer->host(), static_cast<int>(answer->port()), answer->code(),
              answer->certificate_sha256(), answer->self_made()};
}

absl::StatusOr<std::unique_ptr<OperatorClient::Events>> OperatorClient::Follow(
    const EventsWanted& wanted) {
  const auto deadline = std::chrono::system_clock::now() + options_.timeout;
  // No deadline: the call may stay open for months.
  auto stream = std::make_unique<EventStream>(options_.stop);
  const absl::Status allowed = grpc_->Prepare(options_, "Events", deadline, &stream->context());
  if (!allowed.ok()) return allowed;
  v1::EventsRequest request;
  request.set_job(wanted.job);
  request.set_follow(wanted.follow);
  request.set_since_ms(wanted.since_ms);
  request.set_only_new(wanted.only_new);
  stream->Begin(endpoint(), *grpc_->stub, request);
  return stream;
}

absl::StatusOr<std::unique_ptr<OperatorClient::Logs>> OperatorClient::ReadLogs(
    const LogsWanted& wanted) {
  const auto deadline = std::chrono::system_clock::now() + options_.timeout;
  auto stream = std::make_unique<LogStreamOfCall>(options_.stop);
  // Without `soon`, no deadline: files are large, and may be followed for months.
  if (wanted.soon) stream->context().set_deadline(deadline);
  const absl::Status allowed = grpc_->Prepare(options_, "Logs", deadline, &stream->context());
  if (!allowed.ok()) return allowed;
  v1::LogsRequest request;
  request.set_job(wanted.job);
  request.mutable_ranks()->Assign(wanted.ranks.begin(), wanted.ranks.end());
  if (wanted.generation) request.set_generation(*wanted.generation);
  if (wanted.streams == LogStreams::kStdout) request.set_stream(v1::LOG_STREAM_STDOUT);
  if (wanted.streams == LogStreams::kStderr) request.set_stream(v1::LOG_STREAM_STDERR);
  request.set_follow(wanted.follow);
  if (wanted.span.lines) request.set_lines(*wanted.span.lines);
  if (wanted.span.since) {
    request.set_since_ms(std::chrono::ceil<std::chrono::milliseconds>(*wanted.span.since).count());
  }
  stream->Begin(endpoint(), *grpc_->stub, request);
  return stream;
}

}  // namespace ddprun
