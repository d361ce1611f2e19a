// JournalWriter: keeps a journal in a folder. It creates or reads the journal, appends to it,
// repairs it after a failed write, and compacts it.
//
// One owner; one thread at a time. Open, Write, Mark and Compact may block on the disk. It does not
// retry: FileStore does. It refuses a folder in use by another process, and an invalid journal.
#ifndef DDPRUN_RENDEZVOUS_STORE_JOURNAL_WRITER_H_
#define DDPRUN_RENDEZVOUS_STORE_JOURNAL_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/store/file_system.h"
#include "rendezvous/store/store.h"

namespace ddprun {

class JournalWriter {
 public:
  struct Options {
    std::string directory;
    // The journal is compacted when it is larger than this, and larger than `compact_ratio` times
    // its entries.
    std::uint64_t compact_above_bytes = 1 << 20;
    double compact_ratio = 2;
  };

  // Creates and locks the folder, and removes the remains of an interrupted compaction. Reads the
  // journal, cuts its torn tail off, and syncs the rest; or creates the journal. `files` must
  // outlive this object.
  static absl::StatusOr<std::unique_ptr<JournalWriter>> Open(FileSystem* files, Options options);
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  const std::map<std::string, std::string>& entries() const { return entries_; }
  std::uint64_t torn_bytes() const { return torn_bytes_; }  // bytes that Open cut off
  const std::string& path() const { return path_; }

  // Queues a batch for the next Write.
  void Add(const Store::Batch& batch);
  // Tries once to make all added batches durable, in one write. After an error it is not known what
  // was written. The next call first removes the remains of the failed write, then tries again.
  // Aborted: the folder now belongs to another process, and nothing more is written to it.
  absl::Status Write();

  // Call it after a successful Write, when no batch waits. Records in the journal that its content
  // is on disk. So later damage to its end can be distinguished from an interrupted write.
  void Mark();
  // True if the journal has grown enough for a compaction.
  bool WorthCompacting() const;
  // Call it after a successful Write. The error is for people: the journal is still valid, and is
  // compacted again when it has grown more.
  absl::Status Compact();

 private:
  JournalWriter(FileSystem* files, Options options);

  absl::Status Begin();
  absl::Status CheckLock() const;
  absl::Status Append();  // appends pending_
  absl::Status SyncName();
  // Replaces the journal by a new file with all entries.
  absl::Status BeginNewFile();
  std::uint64_t NewFileId();

  FileSystem* const files_;
  const Options options_;
  const std::string path_;
  const std::string temporary_path_;
  std::unique_ptr<DirectoryLock> lock_;
  std::uint64_t torn_bytes_ = 0;

  std::map<std::string, std::string> entries_;  // includes added batches
  std::uint64_t entries_bytes_ = 0;             // size when written
  std::uint64_t next_sequence_ = 1;
  std::string pending_;  // encoded records of added batches

  std::unique_ptr<JournalFile> file_;
  std::uint64_t file_id_ = 0;
  std::uint64_t synced_bytes_ = 0;  // size of the durable beginning of the file
  std::uint64_t size_ = 0;          // includes a mark that is not synced
  bool dirty_ = false;              // a write failed: the bytes after synced_bytes_ are undefined
  bool name_synced_ = true;         // the file's name is durable
  int failures_ = 0;                // of Append since the last success; a full disk does not count
  std::uint64_t compact_above_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_JOURNAL_WRITER_H_
