// Owns one file descriptor. Move-only.
#ifndef DDPRUN_WORKER_SRC_BASE_FILE_DESCRIPTOR_H_
#define DDPRUN_WORKER_SRC_BASE_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace ddp::internal {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }

  int get() const { return fd_; }  // -1 when it owns nothing
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_FILE_DESCRIPTOR_H_
