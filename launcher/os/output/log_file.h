// LogFile: a file to append to, with an optional maximum size. At that size it is renamed to
// PATH.1, which replaces the earlier PATH.1, and an empty PATH begins. So the newest bytes are
// kept, and the disk holds at most twice the maximum.
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

  // Appends all of `bytes`. On an error the unwritten rest stays in `bytes` for a retry. Makes a
  // missing file and its folders. Rotates the file at a line's end if there is one before the
  // maximum size. If the file cannot be renamed, it grows without a bound from now on;
  // `cannot_rename` gets the reason, once.
  absl::Status Append(std::string* bytes, absl::Status* cannot_rename);

 private:
  absl::Status Open();
  std::size_t Fitting(std::string_view bytes) const;
  absl::Status Rotate(absl::Status* cannot_rename);

  const std::string path_;
  std::uint64_t max_bytes_;
  std::uint64_t size_ = 0;  // of the file: at its opening, plus our writes
  UniqueFd fd_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_LOG_FILE_H_
