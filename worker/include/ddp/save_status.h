// The results of a Checkpointer's saves. Standard library only.
#ifndef DDP_SAVE_STATUS_H_
#define DDP_SAVE_STATUS_H_

#include <cstdint>
#include <string>

namespace ddp {

// The saves of one Checkpointer since it was made.
struct SaveStatus {
  std::int64_t saved = 0;    // checkpoints that are on disk
  std::int64_t failed = 0;   // checkpoints not saved; rank 0 has warned of each
  std::int64_t skipped = 0;  // saves skipped because the last one was unfinished: WhenBusy::kSkip
  bool writing = false;      // a checkpoint is not on disk yet
  std::int64_t durable_step = -1;  // step of the newest one on disk; -1: none
  std::string durable_path;        // its file, on rank 0's node
  // On local rank 0: of its newest snapshot; -1: none, or another rank.
  std::int64_t snapshot_step = -1;
  std::string error;  // why the newest finished save failed; "": it is on disk
};

}  // namespace ddp

#endif  // DDP_SAVE_STATUS_H_
