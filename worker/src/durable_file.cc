#include "worker/src/durable_file.h"

#include <ddp/errors.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ddp::internal {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{1} << 30;  // Linux writes at most 2 GiB at once

[[noreturn]] void Fail(const std::string& what, const std::string& path, int error) {
  throw CheckpointError("cannot " + what + " " + path + ": " + std::strerror(error));
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : path_(path), fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) Fail("open", path_, errno);
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = write(fd_, bytes.data(), std::min(bytes.size(), kWriteBytes));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) Fail("write", path_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  void Sync() {
    if (fsync(fd_) != 0) Fail("sync", path_, errno);
  }

  // NFS may tell only here that the disk is full.
  void Close() {
    const int fd = fd_;
    fd_ = -1;
    if (close(fd) != 0) Fail("close", path_, errno);
  }

 private:
  const std::string path_;
  int fd_;
};

}  // namespace

void WriteDurably(const std::string& directory, const std::string& name,
                  const std::vector<std::string_view>& pieces) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) Fail("create directory", directory, error.value());
  const std::string path = directory + "/" + name;
  const std::string temporary = path + kTemporarySuffix;
  Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  for (const std::string_view piece : pieces) file.Write(piece);
  file.Sync();
  file.Close();
  if (std::rename(temporary.c_str(), path.c_str()) != 0) Fail("rename to", path, errno);
  Descriptor(directory, O_RDONLY | O_DIRECTORY).Sync();
}

}  // namespace ddp::internal
