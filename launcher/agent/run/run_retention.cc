#include "launcher/agent/run/run_retention.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUniqueLetters = 6;  // mkdtemp's
constexpr std::chrono::seconds kGrace{1};

struct Run {
  std::string path;
  std::pair<std::time_t, std::int64_t> made_at;  // seconds and nanoseconds
};

bool IsRunName(absl::string_view name, const std::string& job) {
  const std::string prefix = RunPrefix(job);
  return absl::StartsWith(name, prefix) && name.size() == prefix.size() + kUniqueLetters &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                     [](char c) { return absl::ascii_isalnum(c); });
}

bool IsOwnFolder(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid();
}

// The locked owner file; invalid: an agent has the lock, or the run is of another host.
UniqueFd TakeOver(const std::string& run, const std::string& host) {
  UniqueFd owner(::open(RunOwnerFile(run).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!owner.valid() || ::flock(owner.get(), LOCK_EX | LOCK_NB) != 0) return UniqueFd();
  char text[512];
  const ssize_t size = ::pread(owner.get(), text, sizeof(text), 0);
  const std::string line = host + "\n";
  const bool ours = size > 0 && absl::StartsWith({text, static_cast<std::size_t>(size)}, line);
  return ours ? std::move(owner) : UniqueFd();
}

// The runs that are over, the newest first.
std::vector<Run> RunsThatAreOver(const RunsToKeep& keep) {
  std::vector<Run> runs;
  std::error_code error;
  for (fs::directory_iterator entry(keep.log_dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path();
    if (!IsRunName(entry->path().filename().native(), keep.job) || !IsOwnFolder(path)) continue;
    const UniqueFd owner = TakeOver(path, keep.host);
    struct stat status;
    if (!owner.valid() || ::fstat(owner.get(), &status) != 0) continue;
    runs.push_back({path, {status.st_mtim.tv_sec, status.st_mtim.tv_nsec}});
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return std::tie(b.made_at, b.path) < std::tie(a.made_at, a.path);
  });
  return runs;
}

// Removes the owner file last, so that a partly removed run can still be recognized.
std::error_code Remove(const std::string& run) {
  std::error_code error;
  std::vector<fs::path> others;
  for (fs::directory_iterator entry(run, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path() != RunOwnerFile(run)) others.push_back(entry->path());
  }
  for (const fs::path& path : others) {
    if (!error) fs::remove_all(path, error);
  }
  if (!error) fs::remove_all(run, error);
  return error;
}

}  // namespace

RemovedRuns RemoveOldRuns(const RunsToKeep& keep) {
  RemovedRuns removed;
  if (keep.number <= 0) return removed;
  // This run is not among them, because its agent has the lock.
  const std::vector<Run> runs = RunsThatAreOver(keep);
  const auto stay = static_cast<std::size_t>(keep.number) - 1;
  for (std::size_t i = stay; i < runs.size(); ++i) {
    const UniqueFd owner = TakeOver(runs[i].path, keep.host);
    if (!owner.valid()) continue;  // another agent removes it
    if (const std::error_code error = Remove(runs[i].path); !error) {
      removed.paths.push_back(runs[i].path);
    } else if (removed.error.ok()) {
      removed.error = absl::UnavailableError(
          absl::StrCat("cannot remove the old run folder ", runs[i].path, ": ", error.message()));
    }
  }
  return removed;
}

RunRetention::RunRetention(RunsToKeep keep, Done done) {
  if (keep.number <= 0) return;
  tasks_.Post([keep = std::move(keep), done = std::move(done)] { done(RemoveOldRuns(keep)); });
}

RunRetention::~RunRetention() { tasks_.CloseWithin(kGrace); }

}  // namespace ddprun
