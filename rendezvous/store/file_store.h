// FileStore: a Store in a journal in a local folder (docs/internals/journal.md).
//
// After Load, one thread does all the writing. Batches that are committed while it waits for the
// disk are written together afterwards, with one sync. So a slow disk makes these groups larger,
// not the queue longer.
//
// If the disk does not answer or is full, no batch becomes durable, but Commit still returns at
// once. Above `merge_above_bytes` the waiting batches are merged into one, so their memory depends
// on the number of keys, not of commits. The callbacks are not merged: they still take memory for
// each commit.
//
// If another process has taken over the folder despite the lock (somebody removed the lock's file),
// FileStore stops writing: Outcome::kLostRight.
//
// Load refuses a folder that another process uses (AlreadyExists, with its process id if known), a
// damaged journal (DataLoss, with the file and offset) and a journal of another version
// (FailedPrecondition).
//
// One thread at a time calls it.
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
  // Gets messages for people. Called from Load, on its caller's thread; later from the store's
  // thread, so it must only enqueue. Not called once the destructor has begun.
  using Log = std::function<void(std::string_view text)>;

  struct Options {
    JournalWriter::Options journal;  // the folder, and when to compact
    std::size_t merge_above_bytes = 16 << 20;
    // The delay before a retry of a failed write begins with first_retry and doubles up to
    // last_retry.
    std::chrono::milliseconds first_retry{100};
    std::chrono::milliseconds last_retry{5000};
    // The destructor waits this long for committed batches. If the thread still hangs in a write
    // then, it is left behind, and holds the folder's lock until that write or the process ends.
    std::chrono::milliseconds close_grace{2000};
  };

  // `files` null: the real file system. Does not touch the disk yet.
  FileStore(Options options, Log log, std::shared_ptr<FileSystem> files = nullptr);
  // Writes the committed batches if the disk allows, and calls no `done`.
  ~FileStore() override;
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  // Creates the folder (mode 0700) and the journal (0600) if missing.
  absl::StatusOr<std::map<std::string, std::string>> Load() override;
  void Commit(Batch batch, Done done) override;

  // Bytes of the batches that wait for the disk, without the batches that are being written. For
  // tests: nothing else shows that this memory is bounded.
  std::size_t QueuedBytes() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread
  TaskQueue tasks_{"ddprun-journal"};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_FILE_STORE_H_
