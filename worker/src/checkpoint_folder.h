// The files of a checkpoint folder: what they are called, which is the newest, which are too old.
// For rank 0 alone, on one thread at a time: warnings go to stderr and begin with `[rank 0]`. No
// libtorch.
//
// A checkpoint is saved in this order: what dead writers left is removed, the file is written under
// a temporary name and synced, renamed, the folder synced; only then are older ones removed. So
// wherever power is lost, the newest file that can be loaded is the one before or the one just
// saved.
//
// What is removed is whole checkpoints that are older than the one just saved, and what killed
// writers left: never a file of a higher step, one that this version cannot read, or one that
// another process is writing.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_FOLDER_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/src/safetensors.h"

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
};

// `[rank 0] warning: <text>` as one line on stderr.
void WarnOnRank0(const std::string& text);

// step-000000001200.safetensors. `step` is not negative.
std::string CheckpointName(std::int64_t step);

// Returns the path of the file when it is on disk. Throws CheckpointError; there is no new file
// then, and the older ones are as they were.
std::string SaveCheckpoint(const std::string& directory, CheckpointImage image);

// The file with the highest step that is whole, with its path in `*path`; nullptr if there is
// none, or no folder. A damaged file on the way there, or one that is not of the step that its name
// says, is renamed to `<name>.corrupt`; one that
// cannot be opened, or has another format version, is skipped. Both are warned of. Throws
// CheckpointError if the folder cannot be read.
std::unique_ptr<SafetensorsFile> OpenNewestCheckpoint(const std::string& directory,
                                                      std::string* path);

// Keeps the file of `saved_step`, the keep_last - 1 next older ones that can be read, and those
// that keep_every says, and removes the other readable ones that are older. A file that cannot be
// removed is a warning. Throws CheckpointError if the folder cannot be read.
void RemoveOldCheckpoints(const std::string& directory, std::int64_t saved_step,
                          const Retention& retention);

// Removes what writers that were killed left half done, so that it does not fill the disk. See
// AbandonedTemporaries().
void RemoveAbandonedCheckpoints(const std::string& directory);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_FOLDER_H_
