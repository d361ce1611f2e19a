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

// `*number` as it was where nothing is given. Error: the value is no number of this range.
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

void LogView::Begin(const LogService* service, const std::string& owner, LogRequest request,
                    Responder* responder) {
  const auto stream = responder->Open({.status = 200, .content_type = "text/event-stream"});
  const auto view = std::make_shared<LogView>(service, stream);
  stream->OnSent([view] { view->OnSent(); });
  stream->OnClose([view] { view->OnClose(); });
  view->SetId(service->read(owner, std::move(request), view));
}

void LogView::SetId(LogReadId id) {
  std::unique_lock lock(mutex_);
  id_ = id;
  const bool over = over_;
  lock.unlock();
  if (over) {
    service_->cancel(id);  // the viewer has gone; where all was read, there is nothing to cancel
  } else {
    OnSent();  // of what came before
  }
}

void LogView::OnText(const LogSource&, std::string text) {
  {
    const std::lock_guard lock(mutex_);
    unacknowledged_ += text.size();
  }
  stream_->Write(std::make_shared<const std::string>(absl::StrCat(
      "event: text\ndata: ", Dump(nlohmann::ordered_json(std::move(text)), -1), "\n\n")));
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
    over_ = true;
    text = why.ok() ? notes_ : std::string(why.message());
  }
  stream_->Write(SseEvent("end", Dump(nlohmann::ordered_json{{"text", text}}, -1)));
  stream_->Close();
}

void LogView::OnSent() {
  std::unique_lock lock(mutex_);
  if (over_ || !id_ || unacknowledged_ == 0 || stream_->unsent() > 0) return;
  const std::size_t bytes = std::exchange(unacknowledged_, 0);
  const LogReadId id = *id_;
  lock.unlock();
  service_->acknowledge(id, bytes);
}

void LogView::OnClose() {
  std::unique_lock lock(mutex_);
  if (std::exchange(over_, true) || !id_) return;
  const LogReadId id = *id_;
  lock.unlock();
  service_->cancel(id);
}

}  // namespace ddprun::http
