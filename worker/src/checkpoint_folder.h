// The files of a checkpoint folder: what they are called, which is the newest, which are too old.
// For rank 0 alone, on one thread: warnings go to stderr and begin with `[rank 0]`. No libtorch.
//
// What is removed is whole checkpoints that are older than the one just saved, and what killed
// writers left: never a file of a higher step, one that this version cannot read, or one that
// another process is writing.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_FOLDER_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "worker/src/safetensors.h"

namespace ddp::internal {

// step-000000001200.safetensors. `step` is not negative.
std::string CheckpointName(std::int64_t step);

// The file with the highest step that is whole, with its path in `*path`; nullptr if there is
// none, or no folder. A damaged file on the way there is renamed to `<name>.corrupt`; one that
// cannot be opened, or has another format version, is skipped. Both are warned of. Throws
// CheckpointError if the folder cannot be read.
std::unique_ptr<SafetensorsFile> OpenNewestCheckpoint(const std::string& directory,
                                                      std::string* path);

// Keeps the file of `saved_step` and the keep - 1 next older ones that can be read, and removes
// the readable ones that are older than those. A file that cannot be removed is a warning. Throws
// CheckpointError if the folder cannot be read.
void RemoveOldCheckpoints(const std::string& directory, std::int64_t saved_step, int keep);

// Removes what writers that were killed left half done, so that it does not fill the disk. See
// AbandonedTemporaries().
void RemoveAbandonedCheckpoints(const std::string& directory);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_FOLDER_H_
