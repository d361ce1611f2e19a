#include "rendezvous/store/posix_file_system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr std::size_t kLargestWrite = std::size_t{1} << 30;  // Linux writes at most 2 GiB at once

absl::Status Failed(const char* what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

UniqueFd OpenFile(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, kFileMode);
  } while (fd < 0 && errno == EINTR);
  return UniqueFd(fd);
}

class PosixJournalFile final : public JournalFile {
 public:
  PosixJournalFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t count = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kLargestWrite));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Failed("write", path_);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return absl::OkStatus();
  }

  // fdatasync also syncs the size. It does not sync the times, which are not needed.
  absl::Status Sync() override {
    return ::fdatasync(fd_.get()) == 0 ? absl::OkStatus() : Failed("sync", path_);
  }

  absl::Status Truncate(std::uint64_t size) override {
    int result = -1;
    do {
      result = ::ftruncate(fd_.get(), static_cast<off_t>(size));
    } while (result != 0 && errno == EINTR);
    return result == 0 ? absl::OkStatus() : Failed("truncate", path_);
  }

 private:
  const UniqueFd fd_;
  const std::string path_;
};

// Whether `fd` is the file at `path`; nullopt: there is no such file, or stat failed.
std::optional<bool> IsTheOneAt(const std::string& path, int fd) {
  struct stat ours;
  struct stat there;
  if (::fstat(fd, &ours) != 0 || ::lstat(path.c_str(), &there) != 0) return std::nullopt;
  return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

class PosixDirectoryLock final : public DirectoryLock {
 public:
  PosixDirectoryLock(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  bool IsReplaced() const override { return !IsTheOneAt(path_, fd_.get()).value_or(true); }

 private:
  const UniqueFd fd_;
  const std::string path_;
};

// The text that the lock's owner wrote into the lock file, or "".
std::string OwnerOf(int fd) {
  char text[32];
  const ssize_t count = ::pread(fd, text, sizeof text, 0);
  int pid = 0;
  if (count <= 0 || !absl::SimpleAtoi({text, static_cast<std::size_t>(count)}, &pid)) return "";
  return absl::StrCat(" (process ", pid, ")");
}

}  // namespace

absl::Status PosixFileSystem::MakeDirectory(const std::string& path) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), kDirectoryMode) == 0) {
      // Otherwise a power loss could remove the new folder with its content.
      const std::size_t slash = part.rfind('/');
      const std::string parent = slash == 0 ? "/" : part.substr(0, slash);
      absl::Status synced = SyncDirectory(slash == std::string::npos ? "." : parent);
      if (!synced.ok()) return synced;
      continue;
    }
    const int error = errno;  // for an existing parent also EACCES or EROFS
    struct stat info;
    if (::stat(part.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
    return absl::ErrnoToStatus(error, absl::StrCat("cannot make the folder ", part));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> PosixFileSystem::Lock(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/lock");
  for (;;) {
    UniqueFd fd = OpenFile(path, O_RDWR | O_CREAT | O_NOFOLLOW);
    if (fd.get() < 0) return Failed("open", path);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return Failed("lock", path);
      return absl::AlreadyExistsError(absl::StrCat(directory, " is in use by another rendezvous",
                                                   OwnerOf(fd.get()),
                                                   ": stop that process, or use another folder"));
    }
    // Somebody may have removed the file after it was opened here. Then this lock protects nothing.
    if (!IsTheOneAt(path, fd.get()).value_or(false)) continue;
    // For people only. The lock works without it, even on a full disk.
    const std::string pid = absl::StrCat(::getpid(), "\n");
    if (::ftruncate(fd.get(), 0) == 0) {
      [[maybe_unused]] const ssize_t written = ::pwrite(fd.get(), pid.data(), pid.size(), 0);
    }
    return std::make_unique<PosixDirectoryLock>(std::move(fd), path);
  }
}

absl::Status PosixFileSystem::SyncDirectory(const std::string& path) {
  const UniqueFd fd = OpenFile(path, O_RDONLY | O_DIRECTORY);
  if (fd.get() < 0) return Failed("open the folder", path);
  return ::fsync(fd.get()) == 0 ? absl::OkStatus() : Failed("sync the folder", path);
}

absl::StatusOr<std::string> PosixFileSystem::Read(const std::string& path) {
  const UniqueFd fd = OpenFile(path, O_RDONLY | O_NONBLOCK);  // opening a FIFO would block
  if (fd.get() < 0) return Failed("read", path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return Failed("read", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a file"));
  }
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t count = ::read(fd.get(), bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed("read", path);
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  bytes.resize(size);
  return bytes;
}

absl::StatusOr<std::unique_ptr<JournalFile>> PosixFileSystem::Create(const std::string& path) {
  if (absl::Status removed = Remove(path); !removed.ok()) return removed;
  UniqueFd fd = OpenFile(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL);
  if (fd.get() < 0) return Failed("make", path);
  return std::make_unique<PosixJournalFile>(std::move(fd), path);
}

absl::StatusOr<std::unique_ptr<JournalFile>> PosixFileSystem::Open(const std::string& path) {
  UniqueFd fd = OpenFile(path, O_WRONLY | O_APPEND);
  if (fd.get() < 0) return Failed("open", path);
  return std::make_unique<PosixJournalFile>(std::move(fd), path);
}

absl::Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return Failed("rename", absl::StrCat(from, " to ", to));
}

absl::Status PosixFileSystem::Remove(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return Failed("remove", path);
}

}  // namespace ddprun
