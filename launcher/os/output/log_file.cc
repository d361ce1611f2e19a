#include "launcher/os/output/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "launcher/os/file_util.h"

namespace ddprun {
namespace {

constexpr mode_t kFileMode = 0644;

}  // namespace

absl::Status LogFile::Open() {
  const std::size_t slash = path_.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    if (absl::Status made = MakeDirs(path_.substr(0, slash)); !made.ok()) return made;
  }
  fd_.reset(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kFileMode));
  if (!fd_.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open log file ", path_));
  struct stat status;
  size_ = ::fstat(fd_.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  return absl::OkStatus();
}

absl::Status LogFile::Append(std::string* bytes, absl::Status* cannot_rename) {
  std::size_t written = 0;
  const auto keep_rest = absl::MakeCleanup([&] { bytes->erase(0, written); });
  absl::Status status = fd_.valid() ? absl::OkStatus() : Open();
  while (status.ok() && written < bytes->size()) {
    const std::string_view rest = std::string_view(*bytes).substr(written);
    const std::size_t fitting = Fitting(rest);
    if (fitting == 0) {
      status = Rotate(cannot_rename);
      continue;
    }
    const ssize_t size = ::write(fd_.get(), rest.data(), fitting);
    if (size >= 0) {
      written += static_cast<std::size_t>(size);
      size_ += static_cast<std::uint64_t>(size);
    } else if (errno != EINTR) {
      status = absl::ErrnoToStatus(errno, absl::StrCat("cannot write log file ", path_));
    }
  }
  return status;
}

// How many of these bytes fit into the present file: up to a line end, unless one line is larger
// than the maximum size.
std::size_t LogFile::Fitting(std::string_view bytes) const {
  if (max_bytes_ == 0) return bytes.size();
  const std::uint64_t room = max_bytes_ - std::min(size_, max_bytes_);
  if (bytes.size() <= room) return bytes.size();
  const std::size_t newline = room == 0 ? std::string_view::npos : bytes.rfind('\n', room - 1);
  if (newline != std::string_view::npos) return newline + 1;
  return size_ == 0 ? room : 0;
}

absl::Status LogFile::Rotate(absl::Status* cannot_rename) {
  const std::string older = path_ + ".1";
  // ENOENT: another process removed or renamed the file.
  if (::rename(path_.c_str(), older.c_str()) != 0 && errno != ENOENT) {
    absl::Status error =
        absl::ErrnoToStatus(errno, absl::StrCat("cannot rename log file ", path_, " to ", older));
    if (absl::IsResourceExhausted(error)) return error;
    *cannot_rename = std::move(error);
    max_bytes_ = 0;
    return absl::OkStatus();
  }
  fd_.reset();
  return Open();
}

}  // namespace ddprun
