// FileStore: keys and values in a journal in a folder of this host (docs/internals/journal.md).
//
// One thread does all the writing. What is committed while it waits for the disk is
// written together, with one sync, when the disk has answered: so a slow disk makes the groups
// larger, and not the queue longer.
//
// A disk that hangs, or takes nothing, stops the calls of `done`, and nothing else: Commit still
// returns at once. What waits takes memory in proportion to the keys that were written, not to the
// number of commits, because past `merge_above_bytes` the waiting batches become one; to that come
// the `done`s, so a caller should not commit without end while none comes back.
//
// A folder that another process has taken over meanwhile, though we have locked it (somebody has
// removed the lock's file), is left alone from then on: Outcome::kLostRight.
//
// Refuses a folder that another process uses (AlreadyExists, with its process id), a journal that
// is damaged (DataLoss, with the file and offset) and one of another version (FailedPrecondition).
//
// The owner makes it and calls it from one thread.
#ifndef DDPRUN_RENDEZVOUS_STORE_FILE_STORE_H_
#define DDPRUN_RENDEZVOUS_STORE_FILE_STORE_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rendezvous/store/file_system.h"
#include "rendezvous/store/journal_writer.h"
#include "rendezvous/store/store.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class FileStore final : public Store {
 public:
  // For people. From Load, on its caller's thread; later from the store's thread, so it must only
  // enqueue. Not called once the destructor has begun.
  using Log = std::function<void(std::string_view text)>;

  struct Options {
    JournalWriter::Options journal;  // its folder, and when it is compacted
    std::size_t merge_above_bytes = 16 << 20;
    // Between two tries of a write that failed; doubles from the one to the other.
    std::chrono::milliseconds first_retry{100};
    std::chrono::milliseconds last_retry{5000};
    // The destructor waits this long for what was committed. A thread that still hangs in a write
    // then is left behind, with the lock of the folder, to end with the process.
    std::chrono::milliseconds close_grace{2000};
  };

  // Without `files`: those of this host. Touches nothing yet.
  FileStore(Options options, Log log, std::shared_ptr<FileSystem> files = nullptr);
  // Writes what was committed, if the disk lets it, and calls no `done` any more.
  ~FileStore() override;
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  // Makes the folder (0700) and the journal (0600) where they are missing.
  absl::StatusOr<std::map<std::string, std::string>> Load() override;
  void Commit(Batch batch, Done done) override;

  // Bytes of keys and values that wait for the disk, without those that it is writing. For tests:
  // nothing else shows that they are bounded.
  std::size_t QueuedBytes() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread
  TaskQueue tasks_{"ddprun-journal"};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_FILE_STORE_H_
