#include "launcher/text/event_position.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/time/time.h"

namespace ddprun {
namespace {

constexpr std::int64_t kClocksDifferMs = 2000;
constexpr std::size_t kMostRecent = 4096;  // bounds the memory in a burst of events

// 0: none can be read.
std::int64_t TimeOfEvent(const std::string& line) {
  const auto event = nlohmann::json::parse(line, nullptr, false);
  if (!event.is_object() || !event.contains("time") || !event["time"].is_string()) return 0;
  absl::Time time;
  std::string error;
  const auto text = event["time"].get<std::string>();
  return absl::ParseTime(absl::RFC3339_full, text, &time, &error) ? absl::ToUnixMillis(time) : 0;
}

}  // namespace

bool EventPosition::IsNew(const std::string& line) {
  if (!recent_.insert(line).second) return false;
  const std::int64_t at = TimeOfEvent(line);
  newest_ms_ = std::max(newest_ms_, at);
  since_ms_ = std::max<std::int64_t>(newest_ms_ - kClocksDifferMs, 0);
  by_time_.emplace_back(at, line);
  while (by_time_.size() > kMostRecent ||
         (!by_time_.empty() && by_time_.front().first < since_ms_)) {
    recent_.erase(by_time_.front().second);
    by_time_.pop_front();
  }
  return true;
}

}  // namespace ddprun
