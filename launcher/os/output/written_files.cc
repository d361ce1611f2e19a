#include "launcher/os/output/written_files.h"

#include <algorithm>

namespace ddprun {

// ---- WriteTimes ----

void WriteTimes::Wrote(std::size_t bytes, Time now) {
  constexpr std::chrono::seconds kFinest{1};
  if (marks_.empty() || now - marks_.back().time >= kFinest) {
    if (marks_.size() >= kMaxMarks) Thin(now);
    marks_.push_back({now, now, total_});
  }
  marks_.back().last = now;
  total_ += bytes;
}

// Removes each mark whose neighbours are close to each other relative to their age. If that is not
// enough (a clock that leaps), removes the older half.
void WriteTimes::Thin(Time now) {
  std::vector<Mark> kept;
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    const bool last = i + 1 == marks_.size();
    if (!kept.empty() && !last) {
      const auto age = now - marks_[i + 1].time;
      if (marks_[i + 1].time - kept.back().time <= age / 8) {
        kept.back().last = marks_[i].last;
        continue;
      }
    }
    kept.push_back(marks_[i]);
  }
  if (kept.size() >= kMaxMarks) {
    const auto half = kept.begin() + static_cast<std::ptrdiff_t>(kept.size() / 2);
    kept.front().last = (half - 1)->last;
    kept.erase(kept.begin() + 1, half);
  }
  marks_ = std::move(kept);
}

std::uint64_t WriteTimes::WrittenSince(Time since) const {
  const auto written = std::find_if(marks_.begin(), marks_.end(),
                                    [&](const Mark& mark) { return mark.last >= since; });
  return written == marks_.end() ? 0 : total_ - written->before;
}

// ---- WrittenFiles ----

void WrittenFiles::Wake(File& file) {
  for (const auto& changed : std::exchange(file.waiting, {})) changed();
}

void WrittenFiles::Opened(const std::string& path) {
  const std::lock_guard lock(mutex_);
  File& file = files_[path];
  file.known = file.open = true;
  std::erase(closed_, path);
  Wake(file);
}

void WrittenFiles::Wrote(const std::string& path, std::size_t bytes, Time now) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end()) return;
  File& file = found->second;
  file.times.Wrote(bytes, now);
  Wake(file);
}

void WrittenFiles::Closed(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end() || !found->second.open) return;
  File& file = found->second;
  file.open = false;
  Wake(file);
  closed_.push_back(path);
  if (closed_.size() <= kMaxClosed) return;
  files_.erase(closed_.front());
  closed_.pop_front();
}

WrittenFiles::State WrittenFiles::StateOf(const std::string& path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? State{} : State{found->second.open, found->second.times.total()};
}

WrittenFiles::State WrittenFiles::Look(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return StateOf(path);
}

std::optional<std::uint64_t> WrittenFiles::WrittenSince(const std::string& path, Time since) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end()) return std::nullopt;
  return found->second.times.WrittenSince(since);
}

bool WrittenFiles::Await(const std::string& path, const State& seen,
                         std::function<void()> changed) {
  const std::lock_guard lock(mutex_);
  if (StateOf(path) != seen) return false;
  if (!silent_) files_[path].waiting.push_back(std::move(changed));
  return true;
}

void WrittenFiles::WakeAll() {
  const std::lock_guard lock(mutex_);
  for (auto& [path, file] : files_) Wake(file);
  std::erase_if(files_, [](const auto& file) { return !file.second.known; });
}

void WrittenFiles::Silence() {
  const std::lock_guard lock(mutex_);
  silent_ = true;
  for (auto& [path, file] : files_) file.waiting.clear();
}

}  // namespace ddprun
