// SaveStatus has the results of a Checkpointer's saves. Standard library only.
#ifndef DDP_SAVE_STATUS_H_
#define DDP_SAVE_STATUS_H_

#include <cstdint>
#include <string>

namespace ddp {

// The numbers count the saves of one Checkpointer since it was made.
struct SaveStatus {
  std::int64_t saved = 0;    // checkpoints that were written to disk
  std::int64_t failed = 0;   // checkpoints that could not be written; rank 0 has warned of each
  std::int64_t skipped = 0;  // saves skipped because the previous one was unfinished (kSkip)
  bool writing = false;      // the last checkpoint is still being written
  std::int64_t durable_step = -1;  // the step of the last checkpoint that was written; -1: none
  std::string durable_path;        // the file of that checkpoint, on rank 0's node
  // On local rank 0 the step of its newest snapshot. -1: there is none, or this is another rank.
  std::int64_t snapshot_step = -1;
  std::string error;  // why the last finished save failed; "" if it succeeded
};

}  // namespace ddp

#endif  // DDP_SAVE_STATUS_H_
