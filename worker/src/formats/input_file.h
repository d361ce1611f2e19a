// A file that is read in pieces with pread. It is not mapped, so a disk error is an errno for known
// bytes. With a mapping it would be a SIGBUS, which ends the process.
#ifndef DDPRUN_WORKER_SRC_FORMATS_INPUT_FILE_H_
#define DDPRUN_WORKER_SRC_FORMATS_INPUT_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {

// Only one thread may use it at a time.
class InputFile {
 public:
  // Tells whether two ranks of a node that open the same name open the same file.
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    bool operator==(const Identity&) const = default;
  };

  // Throws UnavailableError if the file cannot be read now, and FormatError if it is not a regular
  // file.
  explicit InputFile(std::string path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const Identity& identity() const { return identity_; }
  std::uint64_t size() const { return identity_.size; }  // at the time of opening

  // Throws UnavailableError if the bytes cannot be read now, and DamagedError if the file has
  // become shorter. After ESTALE (a file server no longer knows the handle) it reopens the file
  // once.
  void Read(std::uint64_t offset, void* to, std::size_t size);

 private:
  void Open();

  const std::string path_;
  ddprun::UniqueFd file_;
  Identity identity_;
  bool reopened_ = false;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_INPUT_FILE_H_
