#include "rendezvous/service/operators/logs_call.h"

#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/refusal_counters.h"
#include "rendezvous/wire/limits.h"

namespace ddprun {
namespace {

absl::Status OutOfBounds(const char* field, std::int64_t most, std::int64_t found) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": expected 0 to ", most, " (found ", found, ")"));
}

v1::LogsPiece PieceOf(const LogSource& source) {
  v1::LogsPiece piece;
  piece.set_generation(source.generation.value);
  piece.set_rank(source.rank.value);
  piece.set_stream(source.stream == LogStream::kStdout ? v1::LOG_STREAM_STDOUT
                                                       : v1::LOG_STREAM_STDERR);
  return piece;
}

}  // namespace

absl::StatusOr<LogRequest> ToLogRequest(const v1::LogsRequest& request) {
  LogRequest wanted;
  wanted.job = request.job();
  const auto ranks = static_cast<std::size_t>(request.ranks_size());
  if (ranks > kMaxLogRanks) return OutOfBounds("ranks: number", kMaxLogRanks, ranks);
  for (const std::uint32_t rank : request.ranks()) {
    if (rank >= wire::kMaxWorldSize) return OutOfBounds("ranks", wire::kMaxWorldSize - 1, rank);
    wanted.ranks.push_back(Rank{static_cast<int>(rank)});
  }
  if (request.has_generation()) {
    if (request.generation() > wire::kMaxGeneration) {
      return OutOfBounds("generation", wire::kMaxGeneration, request.generation());
    }
    wanted.generation = Generation{static_cast<int>(request.generation())};
  }
  if (request.stream() == v1::LOG_STREAM_STDOUT) wanted.streams = LogStreams::kStdout;
  if (request.stream() == v1::LOG_STREAM_STDERR) wanted.streams = LogStreams::kStderr;
  if (request.has_lines()) {
    if (request.lines() < 0 || request.lines() > kMaxLogLines) {
      return OutOfBounds("lines", kMaxLogLines, request.lines());
    }
    wanted.span.lines = request.lines();
  }
  if (request.has_since_ms()) {
    if (request.since_ms() < 0 || request.since_ms() > kMaxTimeout.count()) {
      return OutOfBounds("since_ms", kMaxTimeout.count(), request.since_ms());
    }
    wanted.span.since = std::chrono::milliseconds(request.since_ms());
  }
  wanted.follow = request.follow();
  return wanted;
}

LogsCall::LogsCall(CallQueues& queues) : WriterCall(queues) {
  context.AsyncNotifyWhenDone(done_.Tag());
}

void LogsCall::Begin(std::unique_ptr<LogsCall> owned, std::shared_ptr<JobLoop> loop,
                     std::string owner, LogRequest request, Refused refused) {
  const std::shared_ptr<LogsCall> call(std::move(owned));
  {
    const std::lock_guard lock(call->mutex_);
    call->self_ = call;
    call->loop_ = loop;
    call->id_ = loop->NewLogReadId();
    call->refused_ = std::move(refused);
    if (call->cancelled_) return call->End(absl::CancelledError());
    ++call->pending_;
    call->responder.SendInitialMetadata(call->metadata_.Tag());
  }
  loop->ReadLogs(call->id_, std::move(owner), std::move(request), call);
  const std::lock_guard lock(call->mutex_);
  if (call->cancelled_) loop->CancelLogs(call->id_);  // cancelled before the loop knew the request
}

void LogsCall::Refuse(std::unique_ptr<LogsCall> owned, const absl::Status& why) {
  const std::shared_ptr<LogsCall> call(std::move(owned));
  const std::lock_guard lock(call->mutex_);
  call->self_ = call;
  call->End(why);
}

void LogsCall::OnText(const LogSource& source, std::string text) {
  v1::LogsPiece piece = PieceOf(source);
  piece.set_text(std::move(text));
  Queue(std::move(piece));
}

void LogsCall::OnAbout(const LogSource& source, std::string about) {
  v1::LogsPiece piece = PieceOf(source);
  piece.set_about(std::move(about));
  Queue(std::move(piece));
}

void LogsCall::OnSourceEnd(const LogSource& source, std::string note) {
  v1::LogsPiece piece = PieceOf(source);
  piece.set_end(std::move(note));
  Queue(std::move(piece));
}

void LogsCall::OnEnd(absl::Status why) {
  if (absl::IsResourceExhausted(why)) refused_(context, refusal::kTooManyLogReaders, why);
  const std::lock_guard lock(mutex_);
  why_ = std::move(why);
  Continue();
}

void LogsCall::Queue(v1::LogsPiece piece) {
  const std::lock_guard lock(mutex_);
  if (cancelled_ || ended_) return;
  queue_.push_back(std::move(piece));
  Continue();
}

void LogsCall::OnMetadataSent(bool) { Leave(std::unique_lock(mutex_)); }

void LogsCall::OnWritten(bool ok) {
  std::unique_lock lock(mutex_);
  writing_ = false;
  const std::size_t bytes = queue_.front().text().size();
  queue_.pop_front();
  if (ok && !cancelled_) {
    Continue();
    if (bytes > 0) loop_->AcknowledgeLogs(id_, bytes);
  } else {
    End(absl::CancelledError());
  }
  Leave(std::move(lock));
}

void LogsCall::OnDone(bool) {
  std::unique_lock lock(mutex_);
  cancelled_ = true;
  if (loop_ != nullptr) {
    loop_->CancelLogs(id_);
    if (!writing_) End(absl::CancelledError());
  }
  Leave(std::move(lock));
}

void LogsCall::OnFinished(bool) { Leave(std::unique_lock(mutex_)); }

void LogsCall::Continue() {
  if (writing_ || ended_) return;
  if (!queue_.empty()) {
    writing_ = true;
    ++pending_;
    responder.Write(queue_.front(), write_.Tag());
  } else if (why_) {
    End(*why_);
  }
}

void LogsCall::End(const absl::Status& status) {
  if (std::exchange(ended_, true)) return;
  ++pending_;
  responder.Finish(ToGrpc(status), finish_.Tag());
}

void LogsCall::Leave(std::unique_lock<std::mutex> lock) {
  if (--pending_ > 0 || !ended_) return;
  const std::shared_ptr<LogsCall> self = std::move(self_);
  lock.unlock();
}

}  // namespace ddprun
