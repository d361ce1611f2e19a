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
// run.
#ifndef DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_FOLDER_H_
#define DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/formats/safetensors.h"
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

// step-000000001200.safetensors. `step` is not negative.
std::string CheckpointName(std::int64_t step);

// Returns the path of the file when it is on disk. Throws CheckpointError; there is no new file
// then, and the older ones are as they were. Also where `owner`, of this folder, says no, and where
// the name is that of another run's file. `image.metadata` says of which run this one is.
std::string SaveCheckpoint(const std::string& directory, CheckpointImage image, FolderOwner* owner);

struct StepFile {
  std::int64_t step = 0;  // that its name says
  std::string path;
};

// Goes through the files of some folders, highest step first, and opens those that may be loaded:
//
//   CheckpointSearch search(rank, {folder});
//   while (search.Next()) {
//     if (<search.file() is good>) ...
//     search.SetAside("it is not");
//   }
class CheckpointSearch {
 public:
  // Of files of the same step that of the folder that is named first comes first. A folder that is
  // not there is an empty one. Throws CheckpointError if one cannot be read.
  CheckpointSearch(int rank, const std::vector<std::string>& folders,
                   std::int64_t highest_step = std::numeric_limits<std::int64_t>::max());

  // Opens the next file whose structure is good and that is of the step that its name says; false
  // if there is none. Damaged ones on the way there are set aside; one that cannot be opened, or
  // has another format version, is skipped. Both are warned of.
  bool Next();

  // Of the last Next(), which was true. Its tensors' hashes are not checked.
  const SafetensorsFile& file() const { return *file_; }
  const std::string& path() const { return files_[next_ - 1].path; }
  // Whether there are files that Next() has not looked at.
  bool MayHaveMore() const { return next_ < files_.size(); }

  // Renames the file to `<name>.corrupt`, or `<name>.2.corrupt` where there is one, so that it is
  // neither tried again nor taken for a checkpoint, and a person can look at it. Warns. Of the
  // files of a folder that this process has renamed the kSetAsideKept of the highest steps stay;
  // what another process renamed is never touched.
  static constexpr std::size_t kSetAsideKept = 2;
  void SetAside(const std::string& reason);

 private:
  const int rank_;
  std::vector<StepFile> files_;
  std::size_t next_ = 0;
  std::unique_ptr<SafetensorsFile> file_;
};

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
