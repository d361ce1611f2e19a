#include "rendezvous/http/page/view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rendezvous/http/page/page_json.h"
#include "rendezvous/json/dump.h"

namespace ddprun::http {
namespace {

constexpr std::size_t kBytesPerSecond = 16 << 20;  // one view, to all its viewers together
constexpr int kCostFactor = 25;                    // 4 % of a core
constexpr std::chrono::seconds kLongest{30};
constexpr absl::string_view kData = "\ndata: ";
constexpr absl::string_view kEnd = "\n\n";

}  // namespace

Stream::Piece SseEvent(const std::string& name, const std::string& data) {
  return std::make_shared<const std::string>(absl::StrCat("event: ", name, kData, data, kEnd));
}

void View::Add(std::uint64_t id, std::shared_ptr<Stream> stream, SessionEnd until) {
  viewers_.push_back({id, std::move(stream), std::move(until)});
  viewers_.back().pace.Wrote(viewers_.back().stream->unsent());
}

void View::Drop(std::uint64_t id) {
  for (Viewer& viewer : viewers_) viewer.gone = viewer.gone || viewer.id == id;
}

void View::DropEnded(TimePoint now) {
  for (Viewer& viewer : viewers_) {
    if (viewer.until.IsOver(now)) {
      viewer.stream->Close();
      viewer.gone = true;
    } else if (viewer.pace.IsTooSlow(viewer.stream->unsent(), now)) {
      viewer.stream->Abort();
      viewer.gone = true;
    }
  }
  viewers_.erase(std::remove_if(viewers_.begin(), viewers_.end(),
                                [](const Viewer& viewer) { return viewer.gone; }),
                 viewers_.end());
}

std::optional<std::string> View::FreshJson(TimePoint now) const {
  const Stream::Piece event = Fresh(now);
  if (event == nullptr) return std::nullopt;
  const std::size_t begin = event->find(kData.data()) + kData.size();
  return event->substr(begin, event->size() - begin - kEnd.size());
}

void View::Take(const std::string& event, const nlohmann::ordered_json& json, Duration cost,
                TimePoint now) {
  asked_ = false;
  const std::string text = Dump(json, -1);
  const std::chrono::duration<double> transfer(static_cast<double>(text.size() * viewers_.size()) /
                                               kBytesPerSecond);
  const Duration interval = std::max<Duration>(
      {kInterval, cost * kCostFactor, std::chrono::duration_cast<Duration>(transfer)});
  next_ = now + std::min<Duration>(interval, kLongest);
  newest_ = SseEvent(event, text);
  std::string lasting = Dump(WithoutAges(json), -1);
  if (lasting == sent_ && now - sent_at_ < kIdleInterval) return;
  sent_ = std::move(lasting);
  sent_at_ = now;
  Send(newest_);
}

void View::Send(const Stream::Piece& piece) {
  for (Viewer& viewer : viewers_) {
    if (viewer.gone) continue;
    viewer.pace.Wrote(piece->size());
    if (!viewer.stream->Write(piece)) viewer.gone = true;
  }
}

void View::End(const Stream::Piece& last) {
  Send(last);
  for (Viewer& viewer : viewers_) viewer.stream->Close();
  viewers_.clear();
}

}  // namespace ddprun::http
