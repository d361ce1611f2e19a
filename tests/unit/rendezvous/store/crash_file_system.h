// A file system in memory that simulates a crash at any call. A SIGKILL loses no write. A power
// loss keeps the synced writes and any part of the others. A call can also fail without a crash.
//
// A seed decides what a power loss leaves of unsynced bytes. Each piece of 8 to 128 bytes has the
// new bytes, the old bytes, zeros or garbage. The size of the file is any between the old and the
// new one. Of the unsynced changes of names, a power loss keeps the first ones; the seed decides
// how many.
//
// Any thread may call it.
#ifndef DDPRUN_TESTS_UNIT_STORE_CRASH_FILE_SYSTEM_H_
#define DDPRUN_TESTS_UNIT_STORE_CRASH_FILE_SYSTEM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/file_system.h"

namespace ddprun {

class CrashFileSystem : public FileSystem {
 public:
  enum class Op { kSyncDirectory, kCreate, kRename, kRemove, kAppend, kSync, kTruncate };

  // Called before each operation, with the number of the operation, from 1 on. If it returns an
  // error, the operation fails. A failed append still writes the first of its bytes; the seed
  // decides how many.
  using Fault = std::function<absl::Status(Op op, int number)>;

  explicit CrashFileSystem(std::uint32_t seed) : random_(seed) {}

  void SetFault(Fault fault);
  // The operation with this number and all later ones fail. This operation may take effect in part.
  // It calls `on_crash`, which must only notify: the file system's lock is held.
  void CrashAt(int number, std::function<void()> on_crash = {});
  bool crashed() const;
  int operations() const;

  // While the lock is held, every operation waits.
  [[nodiscard]] std::unique_lock<std::mutex> Pause() const { return std::unique_lock(mutex_); }

  // Makes the files that the next process finds: after a power loss if `power_loss`, else after
  // SIGKILL. Forgets the fault and the crash, and counts operations from 1 again.
  void Restart(bool power_loss);

  // The current bytes of a file ("": there is none), and a way to damage them.
  std::string Bytes(const std::string& path) const;
  void SetBytes(const std::string& path, std::string bytes);
  std::vector<std::string> Names() const;

  absl::Status MakeDirectory(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::string> Read(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<JournalFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<JournalFile>> Open(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;

 private:
  class File;
  struct Inode {
    std::string current;
    std::string synced;
  };
  using Directory = std::map<std::string, std::shared_ptr<Inode>>;

  // Begins an operation, with the mutex held. An error: the operation fails. *partly: it may take
  // effect in part although it fails.
  absl::Status Begin(Op op, bool* partly);
  bool Coin() { return (random_() & 1) != 0; }
  std::size_t Below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  std::string AfterPowerLoss(const Inode& inode);

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::mt19937 random_;
  Fault fault_;
  int operations_ = 0;
  int crash_at_ = 0;
  std::function<void()> on_crash_;
  bool crashed_ = false;
  Directory names_;
  std::vector<Directory> unsynced_names_;  // the folder as it was synced, and after each change
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_STORE_CRASH_FILE_SYSTEM_H_
