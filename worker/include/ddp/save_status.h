// The results of a Checkpointer's saves. Standard library only.
#ifndef DDP_SAVE_STATUS_H_
#define DDP_SAVE_STATUS_H_

#include <cstdint>
#include <string>

namespace ddp {

// Of one Checkpointer, since it was made.
struct SaveStatus {
  std::int64_t saved = 0;           // checkpoints that are on disk
  std::int64_t failed = 0;          // not saved; rank 0 has warned of each
  std::int64_t skipped = 0;         // calls that found the last save unfinished: WhenBusy::kSkip
  bool writing = false;             // the newest is not on disk yet
  std::int64_t durable_step = -1;   // of the newest on disk; -1: none
  std::string durable_path;         // its file, on rank 0's node
  std::int64_t snapshot_step = -1;  // of this node's newest snapshot; -1: none
  std::string error;                // why the newest finished save is not on disk; empty if it is
};

}  // namespace ddp

#endif  // DDP_SAVE_STATUS_H_
