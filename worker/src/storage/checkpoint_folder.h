// The files of a checkpoint folder: their names, the search for the newest, the removal of old
// ones. One thread at a time. Warnings go to stderr and begin with `[rank 0]`, or the given rank.
//
// A save has this order: remove files that dead writers left; write the file under a temporary name
// and sync it; rename it; sync the folder; remove older checkpoints. So after a power loss at any
// point, the newest loadable file is the previous checkpoint or the new one.
//
// Two kinds of files are removed: whole checkpoints that are older than the one just saved and
// belong to its run, or to a run from whose state this run continued (lineage.h); and files that
// killed writers left. These are never removed: a file of a higher step, one that this version
// cannot read, one of another training, one of an older version that names no run, or one that
// another process is writing. A file is replaced only by its own run. Damaged files: set_aside.h.
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
  int keep_last = 2;            // at least 1: the newest ones
  std::int64_t keep_every = 0;  // and all with a step that is a multiple of this; 0: none
};

// A checkpoint in memory.
struct CheckpointImage {
  std::int64_t step = 0;
  std::vector<TensorBytes> tensors;  // the bytes are owned by the maker
  Metadata metadata;                 // everything except hashes, version and step
  // Unless null, call it before the bytes are read. It waits until a GPU has copied them. False: a
  // rank was lost, so the bytes are worthless; training reports the loss.
  std::function<bool()> await = nullptr;
};

// `[rank <rank>] warning: <text>` as one line on stderr.
void Warn(int rank, const std::string& text);

// Returns the path of the durable file. Throws CheckpointError; then no new file exists, and the
// older ones are unchanged. Throws also if `owner`, of this folder, refuses, or if the name belongs
// to a file of another run. `image.metadata` names this run.
std::string SaveCheckpoint(const std::string& directory, CheckpointImage image, FolderOwner* owner);

struct StepFile {
  std::int64_t step = 0;  // from its name
  std::string path;
};

// A file or folder that may hold a state but cannot be read now.
struct Unavailable {
  std::string path;    // of the file or folder
  std::string reason;  // one clause, with the text of errno
  int error = 0;       // errno
};

// What a search does with files that length or hash prove to be damaged.
struct DamagedFiles {
  bool rename = true;  // false: leaves them, for readers only
  std::string run{};   // the id of this run, for new names of its own files (set_aside.h)
};

// Goes through the files of some folders, highest step first, and opens those that may be loadable:
//
//   CheckpointSearch search(rank, {folder}, highest_step, FolderErrors::kCount);
//   while (search.Next() == CheckpointSearch::Result::kFound) {
//     if (<search.file() is good> && search.Accept()) ...
//     search.SetAside("it is not");
//   }
//
// An unreadable file is not a damaged one. Damaged files (length, hash, format version) are skipped
// with a warning; if length or hash prove the damage, they are renamed. An unavailable file ends
// the search, because it may be newer than all that follow. Exception: EIO, which a disk returns
// for ever once it has lost a block. Such a file is put off. It counts as damaged if it still gives
// EIO after an older file of its folder was read completely. It is never renamed.
class CheckpointSearch {
 public:
  enum class Result { kFound, kNone, kUnavailable };
  // The meaning of a folder that cannot be listed. kCount: it may hold the newest state.
  // kCountInTheEnd: it holds nothing newer than the wanted state, and counts only if that state is
  // not found.
  enum class FolderErrors { kCount, kCountInTheEnd };

  // Among files of one step, the one in the first-named folder comes first. A missing folder is
  // empty.
  CheckpointSearch(int rank, std::vector<std::string> folders,
                   std::int64_t highest_step = std::numeric_limits<std::int64_t>::max(),
                   FolderErrors folder_errors = FolderErrors::kCount, DamagedFiles damaged = {});

  // Opens the next file with a good structure and the step of its name. kNone: no more files, and
  // nothing is unavailable. After kUnavailable only Restart() helps.
  Result Next();

  // After Next() returned kFound. The hashes of its tensors are not checked.
  const SafetensorsFile& file() const { return *file_; }
  const std::string& path() const { return files_[next_ - 1].path; }
  // After Next() returned kUnavailable.
  const Unavailable& unavailable() const { return unavailable_; }

  // Warns, and renames the file (set_aside.h) if DamagedFiles::rename is set.
  void SetAside(const std::string& reason);

  // Some bytes of the file could not be read, though its header could.
  void PutOff(const UnavailableError& error);

  // Files were put off, so Accept() is needed.
  bool has_put_off() const { return !put_off_.empty(); }
  // The file was read completely. Reads again the bytes of the files that were put off. False: one
  // of them is not damaged; call Next() again.
  bool Accept();

  // Begins again with the present contents of the folders.
  void Restart();

  // The files that cannot be loaded, found since the last Restart(), each with the reason. Also
  // files that earlier searches have set aside.
  const std::vector<std::string>& rejected() const { return rejected_; }

 private:
  struct PutOffFile {
    StepFile file;
    std::uint64_t offset = 0;  // of the unreadable bytes; size 0: it did not open
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
  std::optional<Unavailable> pending_;  // reported by the next Next()
  Unavailable unavailable_;
  std::vector<std::string> rejected_;
  std::set<std::string> warned_of_;  // paths; kept by Restart()
};

// Tries to list `directory`; nullopt: that works, or the folder is missing.
std::optional<Unavailable> WhyNotListed(const std::string& directory);

// Keeps the file of `saved_step`, the keep_last - 1 next older ones, and the files that keep_every
// selects; removes the older ones. Only readable files that `lineage` allows to remove are counted
// and removed. A failed removal is a warning. Throws CheckpointError if the folder cannot be read.
void RemoveOldCheckpoints(const std::string& directory, std::int64_t saved_step,
                          const Retention& retention, const Lineage& lineage);

// Removes the unfinished files of killed writers, so that they do not fill the disk. See
// AbandonedTemporaries().
void RemoveAbandonedCheckpoints(const std::string& directory);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_FOLDER_H_
