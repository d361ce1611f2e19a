// The files of a checkpoint folder: what they are called, which is the newest, which are too old.
// One thread at a time. Warnings go to stderr and begin with `[rank 0]`, or the rank given.
//
// A checkpoint is saved in this order: what dead writers left is removed, the file is written under
// a temporary name and synced, renamed, the folder synced; only then are older ones removed. So
// wherever power is lost, the newest file that can be loaded is the one before or the one just
// saved.
//
// What is removed is whole checkpoints that are older than the one just saved, and of its run or of
// the run from whose state that one went on (lineage.h), and what killed writers left: never a file
// of a higher step, one that this version cannot read, another training's, one of an older version
// that names no run, or one that another process is writing. A file is replaced only by its own
// run. Of the files that were found damaged set_aside.h tells.
#ifndef DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_FOLDER_H_
#define DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/formats/safetensors.h"
#include "worker/src/storage/checkpoint_name.h"
#include "worker/src/storage/folder_owner.h"
#include "worker/src/storage/lineage.h"

namespace ddp::internal {

// Which checkpoints stay after a save.
struct Retention {
  int keep_last = 2;            // at least 1; the newest ones
  std::int64_t keep_every = 0;  // and all whose step is a multiple of this; 0: no others
};

// A checkpoint in memory.
struct CheckpointImage {
  std::int64_t step = 0;
  std::vector<TensorBytes> tensors;  // the bytes are the maker's
  Metadata metadata;                 // with everything but hashes, version and step
  // Unless null, to be called before the bytes are read: waits until they are there, which is as
  // long as a GPU copies them. False: they are worth nothing, because a rank was lost; training
  // says so.
  std::function<bool()> await = nullptr;
};

// `[rank <rank>] warning: <text>` as one line on stderr.
void Warn(int rank, const std::string& text);

// Returns the path of the file when it is on disk. Throws CheckpointError; there is no new file
// then, and the older ones are as they were. Also where `owner`, of this folder, says no, and where
// the name is that of another run's file. `image.metadata` says of which run this one is.
std::string SaveCheckpoint(const std::string& directory, CheckpointImage image, FolderOwner* owner);

struct StepFile {
  std::int64_t step = 0;  // that its name says
  std::string path;
};

// What may hold a state, and the system does not give out.
struct Unavailable {
  std::string path;    // of a file, or of a folder
  std::string reason;  // one clause, with the errno's text
  int error = 0;       // errno
};

// What a search does with files whose length or hash proves that they are damaged.
struct DamagedFiles {
  bool rename = true;  // false: nothing, as for who only reads
  std::string run{};   // the id of this run, for the new names of its own files (set_aside.h)
};

// Goes through the files of some folders, highest step first, and opens those that may be loaded:
//
//   CheckpointSearch search(rank, {folder}, highest_step, FolderErrors::kCount);
//   while (search.Next() == CheckpointSearch::Result::kFound) {
//     if (<search.file() is good> && search.Accept()) ...
//     search.SetAside("it is not");
//   }
//
// A file that cannot be read is not a damaged one. Damaged ones (length, hash, format version) are
// passed over with a warning, and where length or hash prove it renamed. What is unavailable
// ends the search: it may be newer than all that follow. Except EIO, which a disk gives for ever
// where it has lost a block: such a file is put off, and is damaged once an older one of its folder
// was read whole while it still gives EIO. It is never renamed.
class CheckpointSearch {
 public:
  enum class Result { kFound, kNone, kUnavailable };
  // What a folder that cannot be listed means: it may hold the newest state; or nothing that is
  // newer than what is looked for, and counts only where that is not found.
  enum class FolderErrors { kCount, kCountInTheEnd };

  // Of files of the same step that of the folder that is named first comes first. A folder that is
  // not there is an empty one.
  CheckpointSearch(int rank, std::vector<std::string> folders,
                   std::int64_t highest_step = std::numeric_limits<std::int64_t>::max(),
                   FolderErrors folder_errors = FolderErrors::kCount, DamagedFiles damaged = {});

  // Opens the next file whose structure is good and that is of the step that its name says. kNone:
  // there are no more, and nothing is unavailable. After kUnavailable only Restart() helps.
  Result Next();

  // Of the last Next(), which was kFound. Its tensors' hashes are not checked.
  const SafetensorsFile& file() const { return *file_; }
  const std::string& path() const { return files_[next_ - 1].path; }
  // Of the last Next(), which was kUnavailable.
  const Unavailable& unavailable() const { return unavailable_; }

  // Renames the file (set_aside.h), unless that is not wanted. Warns.
  void SetAside(const std::string& reason);

  // The file did not give out some of its bytes, though its header could be read.
  void PutOff(const UnavailableError& error);

  // Whether files were put off, so that Accept() says something.
  bool has_put_off() const { return !put_off_.empty(); }
  // The file was read whole. Reads again what those that were put off did not give out. False: one
  // of them is not damaged, and Next() has to be asked again.
  bool Accept();

  // From the beginning, with what the folders hold now.
  void Restart();

  // What cannot be loaded, since the last Restart(): each with the reason. And what earlier
  // searches have set aside.
  const std::vector<std::string>& rejected() const { return rejected_; }

 private:
  struct PutOffFile {
    StepFile file;
    std::uint64_t offset = 0;  // of the bytes that it did not give out; no bytes: it did not open
    std::size_t size = 0;
    std::string reason;
  };

  void List();
  bool Open(const StepFile& file);
  void Reject(const StepFile& file, const std::string& reason);
  Result IsUnavailable(Unavailable what);
  bool IsReadableNow(const PutOffFile& file);

  // Constant after construction.
  const int rank_;
  const std::vector<std::string> folders_;
  const std::int64_t highest_step_;
  const FolderErrors folder_errors_;
  const DamagedFiles damaged_;

  bool listed_ = false;
  std::vector<StepFile> files_;
  std::size_t next_ = 0;
  std::unique_ptr<SafetensorsFile> file_;
  std::vector<PutOffFile> put_off_;
  std::vector<Unavailable> unlisted_;   // folders
  std::optional<Unavailable> pending_;  // that the next Next() tells
  Unavailable unavailable_;
  std::vector<std::string> rejected_;
  std::set<std::string> warned_of_;  // paths, over all restarts
};

// Lists `directory`; nothing where that works, or it is not there.
std::optional<Unavailable> WhyNotListed(const std::string& directory);

// Keeps the file of `saved_step`, the keep_last - 1 next older ones, and those that keep_every
// says, and removes the older ones: all of them of those that can be read and that `lineage` lets
// go; the others do not count. A file that cannot be removed is a warning. Throws CheckpointError
// if the folder cannot be read.
void RemoveOldCheckpoints(const std::string& directory, std::int64_t saved_step,
                          const Retention& retention, const Lineage& lineage);

// Removes what writers that were killed left half done, so that it does not fill the disk. See
// AbandonedTemporaries().
void RemoveAbandonedCheckpoints(const std::string& directory);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_FOLDER_H_
