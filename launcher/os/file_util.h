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

// Makes `path` and the folders above it that are missing. OK when it is a folder already.
absl::Status MakeDirs(const std::string& path);

// Gives `path` this content, mode 0644. Who reads it sees the old file or the new one, never a
// part: it is written beside its place and renamed. Not synced: it may be gone after a power loss.
absl::Status WriteFileAtomic(const std::string& path, std::string_view content);

// The same where there is no such file yet, also for several who do so at once on one file system:
// one of them does, and for the others the error is AlreadyExists.
absl::Status WriteNewFileAtomic(const std::string& path, std::string_view content);

// The same, mode 0600, and locked (flock) by who makes it before anybody can see it; the kernel
// gives the lock up with the last copy of the descriptor. One that is there already is replaced.
absl::StatusOr<UniqueFd> MakeLockedFile(const std::string& path, std::string_view content);

// A file in memory with this content, open for reading from its start; it has no name and is gone
// when its last descriptor is closed.
absl::StatusOr<UniqueFd> MemoryFile(std::string_view content);
// The same of entries, each with a NUL behind it.
absl::StatusOr<UniqueFd> MemoryFile(const std::vector<std::string>& entries);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_FILE_UTIL_H_
