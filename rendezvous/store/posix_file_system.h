// The real file system. The lock is flock() on DIRECTORY/lock, a file with the owner's process id.
// PosixFileSystem never removes this file.
#ifndef DDPRUN_RENDEZVOUS_STORE_POSIX_FILE_SYSTEM_H_
#define DDPRUN_RENDEZVOUS_STORE_POSIX_FILE_SYSTEM_H_

#include <memory>
#include <string>

#include "rendezvous/store/file_system.h"

namespace ddprun {

class PosixFileSystem final : public FileSystem {
 public:
  absl::Status MakeDirectory(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::string> Read(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<JournalFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<JournalFile>> Open(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_POSIX_FILE_SYSTEM_H_
