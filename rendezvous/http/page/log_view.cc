#include "rendezvous/http/page/log_view.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/http/page/view.h"
#include "rendezvous/json/dump.h"
#include "rendezvous/wire/limits.h"

namespace ddprun::http {
namespace {

constexpr std::int64_t kMostLines = 100'000;
constexpr std::int64_t kDefaultLines = 1'000;

// Keeps `*number` if the query has no such parameter. Error: the value is not a number in this
// range.
absl::Status TakeNumber(const Request& request, const char* name, std::int64_t most,
                        std::optional<std::int64_t>* number) {
  const std::string text = request.Query(name);
  if (text.empty()) return absl::OkStatus();
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0 || value > most) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": expected a number from 0 to ", most));
  }
  *number = value;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LogRequest> LogRequestOf(const Request& request) {
  constexpr std::int64_t kMostRank = std::numeric_limits<int>::max();
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> generation;
  std::optional<std::int64_t> lines = kDefaultLines;
  for (const absl::Status& status : {TakeNumber(request, "rank", kMostRank, &rank),
                                     TakeNumber(request, "generation", kMostRank, &generation),
                                     TakeNumber(request, "tail", kMostLines, &lines)}) {
    if (!status.ok()) return status;
  }
  LogRequest wanted;
  wanted.job = request.Query("job");
  if (wanted.job.empty() || wanted.job.size() > wire::kMaxJobBytes) {
    return absl::InvalidArgumentError("job: expected the name of a job");
  }
  if (!rank) return absl::InvalidArgumentError("rank: expected the rank of a worker");
  wanted.ranks = {Rank{static_cast<int>(*rank)}};
  if (generation) wanted.generation = Generation{static_cast<int>(*generation)};
  const std::string stream = request.Query("stream");
  if (stream == "stdout") {
    wanted.streams = LogStreams::kStdout;
  } else if (stream == "stderr") {
    wanted.streams = LogStreams::kStderr;
  } else if (!stream.empty()) {
    return absl::InvalidArgumentError("stream: expected stdout or stderr");
  }
  wanted.span.lines = lines;
  wanted.follow = request.Query("follow") == "1";
  return wanted;
}

std::shared_ptr<LogView> LogView::Make(const LogService* service, Responder* responder) {
  const auto stream = responder->Open({.status = 200, .content_type = "text/event-stream"});
  auto view = std::make_shared<LogView>(service, stream);
  stream->OnSent([view] { view->OnSent(); });
  stream->OnClose([view] { view->OnClose(); });
  return view;
}

void LogView::Read(const std::string& owner, LogRequest request) {
  SetId(service_->read(owner, std::move(request), shared_from_this()));
}

void LogView::SetId(LogReadId id) {
  std::unique_lock lock(mutex_);
  id_ = id;
  const bool over = over_;
  lock.unlock();
  if (over) {
    service_->cancel(id);  // the viewer has left; after OnEnd this does nothing
  } else {
    OnSent();  // for text that came before the id was known
  }
}

void LogView::OnText(const LogSource&, std::string text) {
  const std::size_t bytes = text.size();
  const Stream::Piece piece = SseEvent("text", Dump(nlohmann::ordered_json(std::move(text)), -1));
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    unacknowledged_ += bytes;
    pace_.Wrote(piece->size());
  }
  stream_->Write(piece);
}

void LogView::OnAbout(const LogSource& source, std::string about) {
  OnSourceEnd(source, std::move(about));  // the page has one place for both
}

void LogView::OnSourceEnd(const LogSource&, std::string note) {
  if (note.empty()) return;
  const std::lock_guard lock(mutex_);
  absl::StrAppend(&notes_, notes_.empty() ? "" : "; ", note);
}

void LogView::OnEnd(absl::Status why) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(over_, true)) return;
    text = why.ok() ? notes_ : std::string(why.message());
  }
  if (absl::IsResourceExhausted(why) && service_->full) service_->full(text);
  Say(text);
}

void LogView::Say(const std::string& end) {
  stream_->Write(SseEvent("end", Dump(nlohmann::ordered_json{{"text", end}}, -1)));
  stream_->Close();
}

void LogView::End(const std::string& why) {
  if (Cancel()) Say(why);
}

void LogView::Cut() {
  Cancel();
  stream_->Abort();
}

bool LogView::Cancel() {
  std::unique_lock lock(mutex_);
  if (std::exchange(over_, true)) return false;
  const std::optional<LogReadId> id = id_;
  lock.unlock();
  if (id) service_->cancel(*id);
  return true;
}

bool LogView::is_over() {
  const std::lock_guard lock(mutex_);
  return over_;
}

bool LogView::IsTooSlow(TimePoint now) {
  const std::lock_guard lock(mutex_);
  return pace_.IsTooSlow(stream_->unsent(), now);
}

void LogView::OnSent() {
  std::unique_lock lock(mutex_);
  if (over_ || !id_ || unacknowledged_ == 0 || stream_->unsent() > 0) return;
  const std::size_t bytes = std::exchange(unacknowledged_, 0);
  const LogReadId id = *id_;
  lock.unlock();
  service_->acknowledge(id, bytes);
}

void LogView::OnClose() { Cancel(); }

}  // namespace ddprun::http
