#include "worker/src/storage/durable_file.h"

#include <ddp/errors.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "worker/contract/control.h"
#include "worker/contract/unique_fd.h"
#include "worker/src/base/file_errors.h"
#include "worker/src/storage/process_identity.h"

namespace ddp::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::chrono::hours kAbandonedAfter{24};
// Bytes per write. For larger writes the kernel allocates large blocks. A virtual machine may first
// have to get these from its host, which doubled the time for a file of 1 GiB.
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;

// An open file or folder, and its path for errors.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags)
      : path_(path), fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (!fd_.valid()) ThrowErrno("open", path_, errno);
  }

  void Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = write(fd_.get(), bytes.data(), std::min(bytes.size(), kWriteBytes));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) ThrowErrno("write", path_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  void Sync() {
    if (fsync(fd_.get()) != 0) ThrowErrno("sync", path_, errno);
  }

  // On NFS, only close() may report a full disk.
  void Close() {
    if (close(fd_.release()) != 0) ThrowErrno("close", path_, errno);
  }

 private:
  const std::string path_;
  ddprun::UniqueFd fd_;
};

// The paths of the temporary files that this process is writing. Any other file whose name contains
// this process's pid was left by an earlier process with the same pid.
class InProgress {
 public:
  static InProgress& Process() {
    static auto* const files = new InProgress;
    return *files;
  }
  bool Add(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return paths_.insert(path).second;
  }
  void Remove(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    paths_.erase(path);
  }
  bool Has(const std::string& path) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return paths_.count(path) > 0;
  }

 private:
  mutable std::mutex mutex_;  // guards the members below
  std::set<std::string> paths_;
};

// True for the errors of a file system that does not have the call.
bool IsUnsupported(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == EPERM;
}

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat first = {};
  struct stat second = {};
  return lstat(a.c_str(), &first) == 0 && lstat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// An unfinished file. It is removed unless it was moved to its final name.
class Temporary {
 public:
  explicit Temporary(const std::string& path) : path_(TemporaryPath(path)) {
    if (!InProgress::Process().Add(path_)) {
      throw CheckpointError("cannot write " + path + ": this process is writing it already");
    }
  }
  ~Temporary() {
    if (!moved_) unlink(path_.c_str());
    InProgress::Process().Remove(path_);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  void Write(const std::function<void(const Sink&)>& write) const {
    OpenFile file(path_, O_WRONLY | O_CREAT | O_TRUNC);
    write([&](std::string_view piece) { file.Write(piece); });
    file.Sync();
    file.Close();
  }

  void MoveTo(const std::string& path) {
    if (std::rename(path_.c_str(), path.c_str()) != 0) ThrowErrno("rename to", path, errno);
    moved_ = true;
  }

  // See Publication::if_free.
  bool MoveToFree(const std::string& path) {
    moved_ = renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0;
    if (moved_) return true;
    if (errno == EEXIST) return false;
    if (!IsUnsupported(errno)) ThrowErrno("rename to", path, errno);
    const int error = link(path_.c_str(), path.c_str()) == 0 ? 0 : errno;
    // If a file server gets a request twice, it may answer EEXIST although it did what was asked.
    if (error == 0 || (error == EEXIST && IsSameFile(path_, path))) {
      unlink(path_.c_str());
      return moved_ = true;
    }
    if (error == EEXIST) return false;
    if (!IsUnsupported(error)) ThrowErrno("link to", path, error);
    struct stat status = {};
    if (lstat(path.c_str(), &status) == 0) return false;
    if (errno != ENOENT) ThrowErrno("look at", path, errno);
    MoveTo(path);
    return true;
  }

 private:
  const std::string path_;
  bool moved_ = false;
};

// Names the host and PID namespace in which a pid means the same process as here.
std::string PidScope() { return HostName() + "-" + PidNamespace() + "-"; }

// True if the process that made this temporary file ran in this PID namespace and is gone.
bool WriterIsGone(const fs::path& path) {
  const std::string filename = path.filename();
  std::string_view name = filename;
  name.remove_suffix(kTemporarySuffix.size());
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  if (!name.substr(0, digits).ends_with("." + PidScope())) return false;
  const auto pid = ddprun::control::ParseNumber(name.substr(digits));
  if (!pid || *pid <= 0 || *pid > INT_MAX) return false;
  if (*pid == getpid()) return !InProgress::Process().Has(path);
  return kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
}

bool IsAbandoned(const fs::path& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (!error && fs::file_time_type::clock::now() - written > kAbandonedAfter) return true;
  return WriterIsGone(path);
}

void ReplaceOld(const Publication& publication) { publication.in_place_of_the_old(); }

void Write(const std::string& directory, const std::string& name,
           const std::function<void(const Sink&)>& write, const Publisher& publish) {
  MakeDirectory(directory);
  const std::string path = directory + "/" + name;
  Temporary temporary(path);
  temporary.Write(write);
  publish({[&] { return temporary.MoveToFree(path); }, [&] { temporary.MoveTo(path); }});
  OpenFile(directory, O_RDONLY | O_DIRECTORY).Sync();
}

}  // namespace

void WriteDurably(const std::string& directory, const std::string& name,
                  const std::vector<std::string_view>& pieces) {
  WriteDurably(directory, name, pieces, ReplaceOld);
}

void WriteDurably(const std::string& directory, const std::string& name,
                  const std::function<void(const Sink&)>& write) {
  Write(directory, name, write, ReplaceOld);
}

void WriteDurably(const std::string& directory, const std::string& name,
                  const std::vector<std::string_view>& pieces, const Publisher& publish) {
  const auto write = [&](const Sink& sink) {
    for (const std::string_view piece : pieces) sink(piece);
  };
  Write(directory, name, write, publish);
}

void MakeDirectory(const std::string& directory) {
  std::error_code ignored;
  if (directory.empty() || fs::is_directory(directory, ignored)) return;
  const std::string parent = fs::path(directory).parent_path();
  MakeDirectory(parent);
  if (mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    ThrowErrno("create directory", directory, errno);
  }
  try {
    OpenFile(parent.empty() ? "." : parent, O_RDONLY | O_DIRECTORY).Sync();
  } catch (const CheckpointError&) {
    // The new folder exists now, but a power failure may remove it. A parent that may not be read
    // cannot be synced.
  }
}

std::string TemporaryPath(const std::string& path) {
  return path + "." + PidScope() + std::to_string(getpid()) + std::string(kTemporarySuffix);
}

std::vector<std::string> AbandonedTemporaries(const std::string& directory,
                                              const std::string& prefix) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(prefix) || !name.ends_with(kTemporarySuffix)) continue;
    if (IsAbandoned(entry->path())) paths.push_back(directory + "/" + name);
  }
  return paths;
}

}  // namespace ddp::internal
