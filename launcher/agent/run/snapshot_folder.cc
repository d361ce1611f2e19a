#include "launcher/agent/run/snapshot_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/os/file_util.h"
#include "worker/contract/job_name.h"
#include "worker/contract/memory_room.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNameBytes = 80;  // of the job's name, in the folder's name
// A folder without a lock file is stale only from this age on.
constexpr std::time_t kNewSeconds = 60;

std::string OwnerPathIn(const std::string& folder) { return absl::StrCat(folder, "/.owner"); }

std::string Prefix(const SnapshotPlace& place) {
  return absl::StrCat(place.root, "/ddprun-", ::geteuid(), "-");
}

// The job's name, reduced to what a path may contain.
std::string NameOf(const std::string& job) {
  std::string name = job.substr(0, kMaxNameBytes);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return name;
}

absl::Status Error(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

// True: no agent has the lock.
bool IsFree(const std::string& folder) {
  const UniqueFd fd(::open(OwnerPathIn(folder).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  return fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

bool IsStale(const std::string& folder) {
  struct stat status;
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
      status.st_uid != ::geteuid()) {
    return false;
  }
  if (::access(OwnerPathIn(folder).c_str(), F_OK) != 0) {
    return status.st_mtime + kNewSeconds < std::time(nullptr);
  }
  return IsFree(folder);
}

}  // namespace

std::uint64_t SnapshotRoom(const SnapshotPlace& place) {
  return MemoryRoom({place.root, place.cgroups, place.self_cgroup});
}

std::vector<std::string> RemoveStaleSnapshots(const SnapshotPlace& place) {
  std::vector<std::string> removed;
  std::error_code error;
  const std::string prefix = Prefix(place);
  for (fs::directory_iterator entry(place.root, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path();
    if (!absl::StartsWith(path, prefix) || !IsStale(path)) continue;
    std::error_code ignored;  // another process may remove it at the same time
    fs::remove_all(path, ignored);
    removed.push_back(path);
  }
  return removed;
}

absl::StatusOr<SnapshotFolder> SnapshotFolder::Create(const std::string& job,
                                                      std::uint32_t requeue_number,
                                                      const SnapshotPlace& place) {
  RemoveStaleSnapshots(place);
  const std::uint64_t room = SnapshotRoom(place);
  if (room < place.least_room) {
    return absl::ResourceExhaustedError(
        absl::StrCat(place.root, " and the memory limits above this process have room for ",
                     room >> 20, " MiB, but at least ", place.least_room >> 20, " MiB are needed"));
  }
  std::string path = absl::StrCat(Prefix(place), NameOf(job), "-", requeue_number, "-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) return Error("make the folder", path);
  // The text is for people.
  auto owner = MakeLockedFile(OwnerPathIn(path),
                              absl::StrCat("agent ", ::getpid(), " of ", NameOfJob(job), "\n"));
  if (!owner.ok()) return owner.status();
  return SnapshotFolder(std::move(path), *std::move(owner));
}

SnapshotFolder::SnapshotFolder(std::string path, UniqueFd owner)
    : path_(std::move(path)), owner_(std::move(owner)) {}

void SnapshotFolder::Remove() {
  std::error_code ignored;  // nothing more can be done about it
  if (!path_.empty()) fs::remove_all(path_, ignored);
  path_.clear();
}

}  // namespace ddprun
