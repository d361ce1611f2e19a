#include "rendezvous/client/operator_client.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/operator.grpc.pb.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/client/channel.h"
#include "rendezvous/client/connect_error.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

absl::Status FromGrpc(const std::string& endpoint, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string& text = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      if (const auto trouble = TlsTrouble(text)) {
        return absl::UnavailableError(
            absl::StrCat("no trust between us and the rendezvous at ", endpoint, ": ", *trouble));
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
                       " does not answer operators: it is of an earlier version, or no ddprun"));
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          absl::StrCat("the rendezvous at ", endpoint, " refused: ", text));
    default:
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()), text);
  }
}

}  // namespace

struct OperatorClient::Grpc {
  explicit Grpc(const Options& options) : connection(options.endpoint, options.credentials) {}

  // Connects, or says at once why not, and shows who we are on the context of a call to `method`,
  // which is then made on `stub`.
  absl::Status Prepare(const Options& options, const std::string& method,
                       std::chrono::system_clock::time_point deadline,
                       grpc::ClientContext* context) {
    const grpc::Status reached = connection.Reach(deadline);
    if (reached.error_code() == grpc::StatusCode::UNAVAILABLE ||
        reached.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return FromGrpc(options.endpoint, reached);
    }
    stub = v1::Operator::NewStub(connection.channel());
    if (options.credentials == nullptr) return absl::OkStatus();
    const absl::Status status =
        options.credentials->Authorize(connection.stub(), method, deadline, context);
    if (status.ok()) return status;
    return FromGrpc(options.endpoint,
                    {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())});
  }

  // One question, one answer.
  template <class Request, class Answer>
  absl::StatusOr<Answer> Call(const Options& options, const std::string& method,
                              const Request& request,
                              grpc::Status (v1::Operator::Stub::*rpc)(grpc::ClientContext*,
                                                                      const Request&, Answer*)) {
    const auto deadline = std::chrono::system_clock::now() + options.timeout;
    grpc::ClientContext context;
    context.set_deadline(deadline);
    const absl::Status allowed = Prepare(options, method, deadline, &context);
    if (!allowed.ok()) return allowed;
    Answer answer;
    const absl::Status status =
        FromGrpc(options.endpoint, ((*stub).*rpc)(&context, request, &answer));
    if (!status.ok()) return status;
    return answer;
  }

  // The same, where the answer is a text.
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

  RenewableChannel connection;
  std::unique_ptr<v1::Operator::Stub> stub;  // from Prepare
};

class OperatorClient::EventStream final : public OperatorClient::Events {
 public:
  explicit EventStream(std::string endpoint) : endpoint_(std::move(endpoint)) {}
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
  void Begin(v1::Operator::Stub& stub, const v1::EventsRequest& request) {
    reader_ = stub.Events(&context_, request);
    reader_->WaitForInitialMetadata();
  }

 private:
  const std::string endpoint_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::EventLine>> reader_;
  bool finished_ = false;
};

class OperatorClient::LogStreamOfCall final : public OperatorClient::Logs {
 public:
  explicit LogStreamOfCall(std::string endpoint) : endpoint_(std::move(endpoint)) {}
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
    part->end = piece.has_end();
    part->note = piece.end();
    return true;
  }
  absl::Status Finish() override {
    finished_ = true;
    return FromGrpc(endpoint_, reader_->Finish());
  }

  grpc::ClientContext& context() { return context_; }
  void Begin(v1::Operator::Stub& stub, const v1::LogsRequest& request) {
    reader_ = stub.Logs(&context_, request);
  }

 private:
  const std::string endpoint_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::LogsPiece>> reader_;
  bool finished_ = false;
};

OperatorClient::OperatorClient(Options options)
    : options_(std::move(options)), grpc_(std::make_unique<Grpc>(options_)) {}

OperatorClient::~OperatorClient() = default;

absl::StatusOr<std::string> OperatorClient::Status(const std::string& job) {
  const auto deadline = std::chrono::system_clock::now() + options_.timeout;
  grpc::ClientContext context;
  context.set_deadline(deadline);
  const absl::Status allowed = grpc_->Prepare(options_, "Status", deadline, &context);
  if (!allowed.ok()) return allowed;
  v1::StatusRequest request;
  request.set_job(job);
  const auto reader = grpc_->stub->Status(&context, request);
  std::string text;
  v1::StatusPiece piece;
  while (reader->Read(&piece)) text += piece.text();
  const absl::Status status = FromGrpc(options_.endpoint, reader->Finish());
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
    return absl::InternalError(absl::StrCat("the rendezvous at ", options_.endpoint,
                                            " answered with ", tree.status().message()));
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
  // Without a deadline: it may be open for months.
  auto stream = std::make_unique<EventStream>(options_.endpoint);
  const absl::Status allowed = grpc_->Prepare(options_, "Events", deadline, &stream->context());
  if (!allowed.ok()) return allowed;
  v1::EventsRequest request;
  request.set_job(wanted.job);
  request.set_follow(wanted.follow);
  request.set_since_ms(wanted.since_ms);
  request.set_only_new(wanted.only_new);
  stream->Begin(*grpc_->stub, request);
  return stream;
}

absl::StatusOr<std::unique_ptr<OperatorClient::Logs>> OperatorClient::ReadLogs(
    const LogsWanted& wanted) {
  const auto deadline = std::chrono::system_clock::now() + options_.timeout;
  auto stream = std::make_unique<LogStreamOfCall>(options_.endpoint);
  // Otherwise without a deadline: files are large, and may be followed for months.
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
  stream->Begin(*grpc_->stub, request);
  return stream;
}

}  // namespace ddprun
