// UniqueFd owns one file descriptor and closes it in its destructor.
//
// Move-only. Not thread-safe, like an int. Errors of close() are ignored. If such an error matters
// (a file on NFS), call fsync first.
//
// Header only, POSIX only: shared by the launcher, the rendezvous and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_UNIQUE_FD_H_
#define DDPRUN_WORKER_CONTRACT_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace ddprun {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }  // -1: owns nothing
  bool valid() const { return fd_ >= 0; }

  // Returns the descriptor without closing it.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  // Closes the descriptor and owns `fd` instead.
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_UNIQUE_FD_H_
