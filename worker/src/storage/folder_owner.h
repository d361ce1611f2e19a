// Keeps a process that has a successor from writing over the successor's checkpoints: see
// worker/contract/checkpoint_owner.h. One thread at a time.
#ifndef DDPRUN_WORKER_SRC_STORAGE_FOLDER_OWNER_H_
#define DDPRUN_WORKER_SRC_STORAGE_FOLDER_OWNER_H_

#include <functional>
#include <optional>
#include <string>

#include "worker/contract/checkpoint_owner.h"
#include "worker/src/agent/launch_environment.h"

namespace ddp::internal {

// Who this process is; nothing where no launcher has said so: then nobody is asked.
std::optional<ddprun::CheckpointOwner> OwnerOfProcess(const Getenv& getenv);

class FolderOwner {
 public:
  FolderOwner(std::string directory, std::optional<ddprun::CheckpointOwner> self);

  // Calls `action` while nobody else may change the folder. The first call takes the folder over
  // from another job, and from a later generation of a run before this one with the same name.
  // Throws CheckpointError, and does not call it, where the folder is a successor's.
  void Guard(const std::function<void()>& action);

 private:
  // Constant after construction.
  const std::string directory_;
  const std::optional<ddprun::CheckpointOwner> self_;

  bool claimed_ = false;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_FOLDER_OWNER_H_
