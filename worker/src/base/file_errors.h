// Helpers for code that handles files. Any thread.
#ifndef DDPRUN_WORKER_SRC_BASE_FILE_ERRORS_H_
#define DDPRUN_WORKER_SRC_BASE_FILE_ERRORS_H_

#include <ddp/errors.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

namespace ddp::internal {

// Throws CheckpointError, for example "cannot open /a/b: Permission denied".
[[noreturn]] inline void ThrowErrno(const std::string& what, const std::string& path,
                                    int error = errno) {
  throw CheckpointError("cannot " + what + " " + path + ": " + std::strerror(error));
}

// True if the name exists, even as a dangling symbolic link. False also if the system cannot tell.
inline bool NameExists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_FILE_ERRORS_H_
