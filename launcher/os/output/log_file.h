// LogFile: a file that is appended to and may have a greatest size. At that size it is renamed to
// PATH.1, where it replaces the one before, and PATH begins anew: the newest bytes are kept, on
// disk at most twice that size.
//
// One thread at a time; every call may block on the disk.
#ifndef DDPRUN_LAUNCHER_OS_OUTPUT_LOG_FILE_H_
#define DDPRUN_LAUNCHER_OS_OUTPUT_LOG_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class LogFile {
 public:
  // `max_bytes` 0: any size.
  LogFile(std::string path, std::uint64_t max_bytes)
      : path_(std::move(path)), max_bytes_(max_bytes) {}

  const std::string& path() const { return path_; }

  // Appends all of `bytes`; on an error, what could not be written is left in it, and may be tried
  // again. Makes the file and its folders where they are missing. It is cut between two lines where
  // one ends in it. `cannot_rename`: why it grows without a bound from now on; told once.
  absl::Status Append(std::string* bytes, absl::Status* cannot_rename);

 private:
  absl::Status Open();
  std::size_t Fitting(std::string_view bytes) const;
  absl::Status Rotate(absl::Status* cannot_rename);

  const std::string path_;
  std::uint64_t max_bytes_;
  std::uint64_t size_ = 0;  // of the file; as it was opened and written by us
  UniqueFd fd_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_LOG_FILE_H_
