#include "rendezvous/service/job/event_log.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rendezvous/json/dump.h"
#include "rendezvous/json/event_json.h"
#include "rendezvous/json/root_cause_json.h"

namespace ddprun {
namespace {

// Memory of a line besides its texts, in bytes.
constexpr std::size_t kOverhead = 160;

std::size_t Cost(const EventLog::Line& line) {
  return kOverhead + line.job.size() + line.owner.size() + line.json.size();
}

// Parses a line of the file. An earlier process, an administrator's editor or a torn write made it.
bool Parse(std::string text, EventLog::Line* line) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto string = [&json](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, string("time"), &time, &error)) return false;
  line->unix_ms = absl::ToUnixMillis(time);
  line->job = string("job");
  line->owner = string("owner");
  line->json = std::move(text);
  return true;
}

EventLog::Options WithDefaults(EventLog::Options options) {
  if (!options.log) options.log = [](std::string_view) {};
  if (!options.unix_ms) {
    options.unix_ms = [] {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      return std::int64_t{std::chrono::duration_cast<std::chrono::milliseconds>(now).count()};
    };
  }
  return options;
}

}  // namespace

EventLog::EventLog(Options options) : options_(WithDefaults(std::move(options))) {}

absl::Status EventLog::Open() {
  LineFile::Options file;
  file.path = options_.file;
  file.max_queued_bytes = options_.file_queue_bytes;
  file.max_file_bytes = options_.max_file_bytes;
  file.kept = options_.files_kept;
  file.log = options_.log;
  file.missing = [unix_ms = options_.unix_ms](std::size_t dropped) {
    const nlohmann::ordered_json json = {
        {"time", IsoTime(unix_ms())}, {"event", "dropped"}, {"lines", dropped}};
    return Dump(json, -1);
  };
  file_ = std::make_unique<LineFile>(std::move(file));
  if (const absl::Status status = file_->Open(); !status.ok()) return status;
  Load(LineFile::RenamedPath(options_.file, 1));
  Load(options_.file);
  return absl::OkStatus();
}

void EventLog::Load(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return;  // this process may be allowed to write the file, but not to read it
  const std::streamoff size = stream.tellg();
  const auto most = static_cast<std::streamoff>(options_.max_bytes);
  stream.seekg(size > most ? size - most : 0);
  std::string text;
  if (size > most) std::getline(stream, text);  // skip the rest of a line
  const std::lock_guard lock(mutex_);
  while (std::getline(stream, text)) {
    Line line;
    if (Parse(std::move(text), &line)) Retain(std::move(line));
    text.clear();
  }
}

void EventLog::Add(std::string_view job, std::string_view owner, std::uint32_t requeue_number,
                   const JobEvent& event) {
  Line line;
  line.unix_ms = options_.unix_ms();
  line.job = std::string(job);
  line.owner = std::string(owner);
  line.json = EventToJson(line.unix_ms, job, owner, requeue_number, event);
  if (file_ != nullptr) file_->Append(line.json);
  {
    const std::lock_guard lock(mutex_);
    Retain(std::move(line));
  }
  WakeAll();
}

void EventLog::Retain(Line line) {
  bytes_ += Cost(line);
  lines_.push_back(std::make_shared<const Line>(std::move(line)));
  while (lines_.size() > options_.max_lines || bytes_ > options_.max_bytes) {
    bytes_ -= Cost(*lines_.front());
    lines_.pop_front();
    ++first_;
  }
}

void EventLog::ReopenFile() {
  if (file_ != nullptr) file_->Reopen();
}

std::size_t EventLog::dropped_from_file() const { return file_ == nullptr ? 0 : file_->dropped(); }

std::uint64_t EventLog::Oldest() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

std::uint64_t EventLog::End() const {
  const std::lock_guard lock(mutex_);
  return first_ + lines_.size();
}

absl::Status EventLog::Next(const Filter& filter, std::uint64_t* place,
                            std::shared_ptr<const Line>* line) const {
  line->reset();
  const std::lock_guard lock(mutex_);
  if (*place < first_) {
    return absl::OutOfRangeError(
        absl::StrCat("too slow: ", first_ - *place,
                     " lines were forgotten before they were read; they are in the event file"));
  }
  for (; *place < first_ + lines_.size(); ++*place) {
    const std::shared_ptr<const Line>& candidate = lines_[*place - first_];
    if (!filter.owner.empty() && candidate->owner != filter.owner) continue;
    if (!filter.job.empty() && candidate->job != filter.job) continue;
    if (candidate->unix_ms < filter.since_ms) continue;
    *line = candidate;
    ++*place;
    return absl::OkStatus();
  }
  return closed_ ? absl::UnavailableError("the rendezvous is shutting down") : absl::OkStatus();
}

void EventLog::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  WakeAll();
}

void EventLog::WakeAll() {
  const std::lock_guard lock(followers_mutex_);
  for (const auto& [id, wake] : followers_) wake();
}

std::uint64_t EventLog::Follow(std::function<void()> wake) {
  const std::lock_guard lock(followers_mutex_);
  if (followers_.size() >= kMaxFollowers) return 0;
  followers_.emplace(next_follower_, std::move(wake));
  return next_follower_++;
}

void EventLog::Unfollow(std::uint64_t follower) {
  const std::lock_guard lock(followers_mutex_);
  followers_.erase(follower);
}

}  // namespace ddprun
