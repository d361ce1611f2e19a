// A file that is read piece by piece. With pread, not through a mapping: an error of the disk is
// then an errno that says which bytes it is about, where a mapping ends the process with SIGBUS.
#ifndef DDPRUN_WORKER_SRC_FORMATS_INPUT_FILE_H_
#define DDPRUN_WORKER_SRC_FORMATS_INPUT_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {

// One thread at a time.
class InputFile {
 public:
  // What tells a file from another one of the same name on another node.
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    bool operator==(const Identity&) const = default;
  };

  // Throws UnavailableError where the system does not give the file out, FormatError if it is not a
  // regular one.
  explicit InputFile(std::string path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const Identity& identity() const { return identity_; }
  std::uint64_t size() const { return identity_.size; }  // when it was opened

  // Throws UnavailableError, or DamagedError where the file has become shorter. After ESTALE, which
  // a file server gives for a handle that it has forgotten, the file is opened anew, once.
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
