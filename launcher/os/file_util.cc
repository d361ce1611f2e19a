#include "launcher/os/file_util.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

absl::Status WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t size = ::write(fd, content.data(), content.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return absl::ErrnoToStatus(errno, "");
    content.remove_prefix(static_cast<std::size_t>(size));
  }
  return absl::OkStatus();
}

absl::Status WriteAndClose(int fd, std::string_view content) {
  const UniqueFd owned(fd);
  if (absl::Status written = WriteAll(fd, content); !written.ok()) return written;
  if (::fchmod(fd, 0644) != 0) return absl::ErrnoToStatus(errno, "");
  return absl::OkStatus();
}

// `move` renames the file to `path`, or sets errno.
absl::Status WriteBeside(const std::string& path, std::string_view content,
                         int (*move)(const char* from, const char* to)) {
  const std::string what = absl::StrCat("cannot write ", path);
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, what);
  absl::Status written = WriteAndClose(fd, content);
  if (written.ok() && move(temporary.c_str(), path.c_str()) != 0) {
    written = absl::ErrnoToStatus(errno, "");
  }
  if (written.ok()) return written;
  ::unlink(temporary.c_str());
  return absl::Status(written.code(), absl::StrCat(what, written.message()));
}

}  // namespace

absl::Status MakeDirs(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make folder ", path));
}

absl::Status WriteFileAtomic(const std::string& path, std::string_view content) {
  return WriteBeside(path, content, ::rename);
}

absl::Status WriteNewFileAtomic(const std::string& path, std::string_view content) {
  return WriteBeside(path, content, [](const char* from, const char* to) {
    const int result = ::link(from, to);
    const int error = errno;
    ::unlink(from);
    errno = error;
    return result;
  });
}

absl::StatusOr<UniqueFd> MakeLockedFile(const std::string& path, std::string_view content) {
  const std::string what = absl::StrCat("cannot make and lock ", path);
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  UniqueFd file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) return absl::ErrnoToStatus(errno, what);
  absl::Status made;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) made = absl::ErrnoToStatus(errno, "");
  if (made.ok()) made = WriteAll(file.get(), content);
  if (made.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    made = absl::ErrnoToStatus(errno, "");
  }
  if (made.ok()) return file;
  ::unlink(temporary.c_str());
  return absl::Status(made.code(), absl::StrCat(what, made.message()));
}

absl::StatusOr<UniqueFd> MemoryFile(std::string_view content) {
  UniqueFd file(::memfd_create("ddprun", MFD_CLOEXEC));
  if (!file.valid()) return absl::ErrnoToStatus(errno, "memfd_create");
  if (absl::Status written = WriteAll(file.get(), content); !written.ok()) return written;
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return absl::ErrnoToStatus(errno, "lseek");
  return file;
}

absl::StatusOr<UniqueFd> MemoryFile(const std::vector<std::string>& entries) {
  std::string bytes;
  for (const std::string& entry : entries) bytes.append(entry).push_back('\0');
  return MemoryFile(std::string_view(bytes));
}

}  // namespace ddprun
