// Folders and small files. Any thread; may block on the disk. Errors name the path.
#ifndef DDPRUN_LAUNCHER_OS_FILE_UTIL_H_
#define DDPRUN_LAUNCHER_OS_FILE_UTIL_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

// Makes `path` and the missing folders above it. OK if it is a folder already.
absl::Status MakeDirs(const std::string& path);

// Writes a file and renames it to `path`, mode 0644. Readers see the old file or the new one, never
// a part. Not synced: it may be gone after a power loss.
absl::Status WriteFileAtomic(const std::string& path, std::string_view content);

// The same, but returns AlreadyExists if the file exists. If several processes call it at the same
// time for one path, one succeeds and the others get AlreadyExists.
absl::Status WriteNewFileAtomic(const std::string& path, std::string_view content);

// The same as WriteFileAtomic, with mode 0600. The file is locked (flock) before others can see it.
// The kernel drops the lock with the last copy of the returned descriptor.
absl::StatusOr<UniqueFd> MakeLockedFile(const std::string& path, std::string_view content);

// A nameless file in memory with this content, open for reading from its start. It is gone when its
// last descriptor is closed.
absl::StatusOr<UniqueFd> MemoryFile(std::string_view content);
// The same, with `entries` as content; each entry ends with a NUL.
absl::StatusOr<UniqueFd> MemoryFile(const std::vector<std::string>& entries);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_FILE_UTIL_H_
