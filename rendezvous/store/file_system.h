// What a journal asks of the operating system, behind an interface so that tests can let each of it
// fail, stop half way, or be the last thing before a power loss.
//
// One thread at a time. Every call may block on the disk. Errors name the path; ResourceExhausted
// means that there is no room.
#ifndef DDPRUN_RENDEZVOUS_STORE_FILE_SYSTEM_H_
#define DDPRUN_RENDEZVOUS_STORE_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ddprun {

// A file that is open for appending. Keeps its file when another takes over the name.
class JournalFile {
 public:
  virtual ~JournalFile() = default;
  // After an error some of `bytes`, from their beginning, may be in the file.
  virtual absl::Status Append(std::string_view bytes) = 0;
  // All that was appended is on disk. After an error any of it may be, or not.
  virtual absl::Status Sync() = 0;
  virtual absl::Status Truncate(std::uint64_t size) = 0;
};

// Held until it is destroyed, or until the process ends, however it ends.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
  // It keeps nobody out any more: somebody has put another file in its place, as a process does
  // that finds none. False where that cannot be told.
  virtual bool IsReplaced() const { return false; }
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Makes it, and the folders above that are missing, for this user only.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // AlreadyExists when another process, which it names if it can, has it.
  virtual absl::StatusOr<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) = 0;
  // Names that were made, renamed or removed in it are so on disk.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // NotFound when there is none.
  virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
  // A new, empty file, for this user only, in place of one that is there.
  virtual absl::StatusOr<std::unique_ptr<JournalFile>> Create(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<JournalFile>> Open(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // OK when there is none.
  virtual absl::Status Remove(const std::string& path) = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_FILE_SYSTEM_H_
