// The files of a checkpoint folder: their names, the search for the newest, the removal of old
// files. Only one thread may use this at a time. Warnings go to stderr and begin with `[rank 0]`,
// or with the given rank.
//
// A save does this, in this order: it removes files that dead writers left; writes the new file
// under a temporary name and syncs it; renames it; syncs the folder; removes older checkpoints. So
// after a power loss at any time, the newest loadable file is the previous or the new checkpoint.
//
// Only three kinds of files are removed:
//   - Checkpoints of lower steps than the checkpoint just saved, if they belong to its run or to
//     the run from whose state this run continued (lineage.h). Only their header and length are
//     checked, so a file with a wrong tensor hash can be removed, too.
//   - Temporary files that killed writers left, or to which nobody has written for a day.
//   - This run's damaged files that were renamed (set_aside.h), except the two of the highest
//     steps.
// Other files are never removed:
//   - a file of a higher step,
//   - a file whose header or length is wrong,
//   - a file of an unknown format version,
//   - a file of any other training, or of an older version that names no run,
//   - a temporary file that another process is writing.
// Only the run that made a file may replace it.
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
  int keep_last = 2;            // how many of the newest stay; at least 1
  std::int64_t keep_every = 0;  // also keep each step that is a multiple of this; 0: none
};

// A checkpoint in memory.
struct CheckpointImage {
  std::int64_t step = 0;
  std::vector<TensorBytes> tensors;  // the maker of the image owns the bytes
  Metadata metadata;                 // everything except hashes, format version and step
  // If not null, call it before you read the bytes. It waits until a GPU has copied them. False: a
  // rank was lost, so the bytes are not valid; training reports the loss.
  std::function<bool()> await = nullptr;
};

// Writes `[rank <rank>] warning: <text>` as one line to stderr.
void Warn(int rank, const std::string& text);

// Returns the path of the durable file. If it throws CheckpointError, there is no new file, and the
// older files are unchanged. One exception: if only the sync of the folder fails, the new file is
// there, but a power loss may undo its rename. It also throws if `owner`, the owner of this folder,
// refuses, or if a file of that name is not of this run. `image.metadata` must name this run.
std::string SaveCheckpoint(const std::string& directory, CheckpointImage image, FolderOwner* owner);

struct StepFile {
  std::int64_t step = 0;  // from its name
  std::string path;
};

// A file or folder that cannot be read now, but may hold a state.
struct Unavailable {
  std::string path;    // the file or folder
  std::string reason;  // one clause, with the text of errno
  int error = 0;       // errno
};

// What a search does with a file whose length or hash proves that it is damaged.
struct DamagedFiles {
  bool rename = true;  // false: leaves it as it is; for programs that only read
  std::string run{};   // id of this run, for the new names of its files (set_aside.h)
};

// Goes through the files of some folders, highest step first, and opens the files that may be
// loadable:
//
//   CheckpointSearch search(rank, {folder}, highest_step, FolderErrors::kCount);
//   while (search.Next() == CheckpointSearch::Result::kFound) {
//     if (<a hash of search.file() is wrong>) {
//       search.SetAside("why");
//       continue;
//     }
//     if (!search.Accept()) continue;  // the search may have begun again
//     ... use search.file() ...
//     break;
//   }
//
// A file with a wrong length or hash is damaged: the search skips it with a warning, and renames
// it. A file of an unknown format version, or of another step than its name says, is skipped with a
// warning too, but not renamed. An unreadable file does not count as damaged. If a file is
// unavailable now, Next() returns kUnavailable, because this file may be newer than all files that
// follow. The exception is EIO, which a disk returns for ever once it has lost a block. The search
// postpones such a file (puts it off). The file counts as damaged if it still gives EIO after an
// older file of the same folder was read completely. It is never renamed.
class CheckpointSearch {
 public:
  enum class Result { kFound, kNone, kUnavailable };
  // What a folder that cannot be listed means. kCount: it may hold the newest state, so Next()
  // returns kUnavailable for it at once. kCountInTheEnd: it holds nothing newer than the wanted
  // state, so Next() returns kUnavailable for it only after all files were tried.
  enum class FolderErrors { kCount, kCountInTheEnd };

  // If several folders have a file of the same step, the folder that was named first comes first. A
  // missing folder counts as empty.
  CheckpointSearch(int rank, std::vector<std::string> folders,
                   std::int64_t highest_step = std::numeric_limits<std::int64_t>::max(),
                   FolderErrors folder_errors = FolderErrors::kCount, DamagedFiles damaged = {},
                   std::int64_t lowest_step = 0);

  // Opens the next file whose header and length are right and whose step agrees with its name.
  // kNone: there are no more files, and nothing is unavailable. After kUnavailable, call Restart().
  Result Next();

  // After Next() returned kFound. The hashes of the file's tensors are not checked yet.
  const SafetensorsFile& file() const { return *file_; }
  const std::string& path() const { return files_[next_ - 1].path; }
  // After Next() returned kUnavailable.
  const Unavailable& unavailable() const { return unavailable_; }

  // Rejects the file: warns, and renames it (set_aside.h) if DamagedFiles::rename is set.
  void SetAside(const std::string& reason);

  // Postpones the file. Call it if some bytes of the file could not be read, although its header
  // could. If the error is not EIO, the next Next() returns kUnavailable.
  void PutOff(const UnavailableError& error);

  // True if files were put off, so Accept() must be called.
  bool has_put_off() const { return !put_off_.empty(); }
  // Call it when the file was read completely. Tries again to read the put-off files of its folder.
  // False: call Next() again, and do not use file(), path() or SetAside() before that. There are
  // two reasons. A put-off file can be read now: then Accept() has called Restart(). Or a put-off
  // file is in another folder, or now gives another errno than EIO: then Next() returns
  // kUnavailable.
  bool Accept();

  // Begins again with the current contents of the folders.
  void Restart();

  // The files that cannot be loaded and were found since the last Restart(), each with the reason.
  // Includes files that earlier searches have set aside (renamed), except if IsForOneStep().
  const std::vector<std::string>& rejected() const { return rejected_; }

 private:
  struct PutOffFile {
    StepFile file;
    std::uint64_t offset = 0;  // of the unreadable bytes; size 0: the file did not open
    std::size_t size = 0;
    std::string reason;
  };

  // True: the search is for one step; or, with highest_step < 0, it opens no file and only checks
  // that the folders can be listed. No older file of the search can prove that a file with EIO is
  // damaged, so such a file counts as not found.
  bool IsForOneStep() const { return lowest_step_ > 0 || highest_step_ < 0; }
  void List();
  bool Open(const StepFile& file);
  void Reject(const StepFile& file, const std::string& reason);
  Result IsUnavailable(Unavailable what);
  bool IsReadableNow(const PutOffFile& file);

  // Constant after construction.
  const int rank_;
  const std::vector<std::string> folders_;
  const std::int64_t lowest_step_;
  const std::int64_t highest_step_;
  const FolderErrors folder_errors_;
  const DamagedFiles damaged_;

  bool listed_ = false;
  std::vector<StepFile> files_;
  std::size_t next_ = 0;
  std::unique_ptr<SafetensorsFile> file_;
  std::vector<PutOffFile> put_off_;
  std::vector<Unavailable> unlisted_;   // folders that could not be listed
  std::optional<Unavailable> pending_;  // the next Next() reports it
  Unavailable unavailable_;
  std::vector<std::string> rejected_;
  std::set<std::string> warned_of_;  // paths; kept by Restart()
};

// Tries to list `directory`. nullopt: that works, or the folder is missing.
std::optional<Unavailable> WhyNotListed(const std::string& directory);

// Keeps the file of `saved_step`, the next keep_last - 1 files of lower steps, and the files that
// keep_every selects. Removes the other files of lower steps. Counts and removes a file only if its
// header and length are right and `lineage` allows it. Does not check the hashes of the tensors. A
// failed removal is a warning. Throws CheckpointError if the folder cannot be read.
void RemoveOldCheckpoints(const std::string& directory, std::int64_t saved_step,
                          const Retention& retention, const Lineage& lineage);

// Removes the unfinished files of killed writers, so that they do not fill the disk (see
// AbandonedTemporaries()).
void RemoveAbandonedCheckpoints(const std::string& directory);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_FOLDER_H_
