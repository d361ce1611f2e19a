// Keeps a journal in a folder: begins or reads it, appends to it, repairs what a failed write left,
// and compacts it.
//
// One owner; one thread at a time; every call may block on the disk. It never waits or tries again
// by itself: FileStore does. It refuses a folder that another process has, and a damaged journal.
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
    // The journal is written anew when it is larger than this, and than `compact_ratio` times what
    // its entries take.
    std::uint64_t compact_above_bytes = 1 << 20;
    double compact_ratio = 2;
  };

  // Makes and locks the folder, removes what an interrupted compaction left, reads the journal,
  // cuts its torn tail off, and makes sure that all that was read is on disk. `files` must outlive
  // it.
  static absl::StatusOr<std::unique_ptr<JournalWriter>> Open(FileSystem* files, Options options);
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  const std::map<std::string, std::string>& entries() const { return entries_; }
  std::uint64_t torn_bytes() const { return torn_bytes_; }  // what Open cut off
  const std::string& path() const { return path_; }

  // Adds to what the next Write writes.
  void Add(const Store::Batch& batch);
  // One try to make everything that was added durable, in one write. After an error nothing is
  // certain: the same is tried by the next call, which first removes what this one left. Aborted:
  // the folder is another process's by now, and nothing is ever written to it again.
  absl::Status Write();

  // After a Write that succeeded, when nothing else is to be written now: notes in the journal that
  // what it holds is on disk, so that damage to its end can be told from an interrupted write.
  void Mark();
  // The journal has grown enough to be written anew.
  bool WorthCompacting() const;
  // After a Write that succeeded. An error is for people: the journal is as good as before, and is
  // worth compacting again when it has grown more.
  absl::Status Compact();

 private:
  JournalWriter(FileSystem* files, Options options);

  absl::Status Begin();
  absl::Status CheckLock() const;
  absl::Status Append();  // what is pending
  absl::Status SyncName();
  // The entries as a new file, in place of the journal.
  absl::Status BeginNewFile();
  std::uint64_t NewFileId();

  FileSystem* const files_;
  const Options options_;
  const std::string path_;
  const std::string temporary_path_;
  std::unique_ptr<DirectoryLock> lock_;
  std::uint64_t torn_bytes_ = 0;

  std::map<std::string, std::string> entries_;  // with what was added
  std::uint64_t entries_bytes_ = 0;             // as they would be written
  std::uint64_t next_sequence_ = 1;
  std::string pending_;  // records that were added

  std::unique_ptr<JournalFile> file_;
  std::uint64_t file_id_ = 0;
  std::uint64_t synced_bytes_ = 0;  // the file's beginning that is on disk
  std::uint64_t size_ = 0;          // with a mark, which nobody waits for
  bool dirty_ = false;              // a write failed: anything may be behind synced_bytes_
  bool name_synced_ = true;         // the file's name is on disk
  int failures_ = 0;                // of Write, in a row
  std::uint64_t compact_above_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_JOURNAL_WRITER_H_
