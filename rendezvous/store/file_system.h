// FileSystem: the operating system's functions that a journal needs. Tests implement it to let each
// call fail, stop half way, or be the last before a power loss.
//
// Called by one thread at a time. Every call may block on the disk. Errors name the path.
// ResourceExhausted: the disk or the user's quota is full.
#ifndef DDPRUN_RENDEZVOUS_STORE_FILE_SYSTEM_H_
#define DDPRUN_RENDEZVOUS_STORE_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ddprun {

// A file open for appending. It stays the same file if another file takes its name.
class JournalFile {
 public:
  virtual ~JournalFile() = default;
  // After an error, the first part of `bytes` may be in the file.
  virtual absl::Status Append(std::string_view bytes) = 0;
  // Makes all appended bytes durable. After an error, any part of them may be durable.
  virtual absl::Status Sync() = 0;
  virtual absl::Status Truncate(std::uint64_t size) = 0;
};

// A lock, held until this object is destroyed or the process ends for any reason.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
  // True: the lock no longer protects the folder, because somebody removed the lock file and a new
  // one was made. False also if this cannot be determined.
  virtual bool IsReplaced() const { return false; }
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Creates the folder and missing parents, for this user only.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // AlreadyExists: another process has the lock. The error names the process if known.
  virtual absl::StatusOr<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) = 0;
  // Makes the creation, renaming and removal of files in the folder durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Error NotFound: there is no such file.
  virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
  // Creates an empty file, for this user only; replaces an existing one.
  virtual absl::StatusOr<std::unique_ptr<JournalFile>> Create(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<JournalFile>> Open(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // OK also if there is no such file.
  virtual absl::Status Remove(const std::string& path) = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_FILE_SYSTEM_H_
