// Keeps two trainings, and two generations of one, from writing into one folder of checkpoints: see
// worker/contract/checkpoint_owner.h for the file that says whose it is.
//
// Who comes later in the same run (a higher requeue number or generation) takes the folder at once,
// and who came before is refused from then on. Another run waits: its owner may have died where
// nobody sees it, or be cut off. Time is that of the file server, so no two clocks are compared.
#ifndef DDPRUN_WORKER_SRC_STORAGE_FOLDER_OWNER_H_
#define DDPRUN_WORKER_SRC_STORAGE_FOLDER_OWNER_H_

#include <ddp/errors.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "worker/contract/checkpoint_owner.h"
#include "worker/contract/limits.h"
#include "worker/src/agent/launch_environment.h"

namespace ddp::internal {

// Who this process is; nothing where no launcher has said so: then nobody is asked.
std::optional<ddprun::CheckpointOwner> OwnerOfProcess(const Getenv& getenv);

// The folder is another training's, or a later generation's. The text says whose.
class FolderTaken : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

struct FolderOwnerOptions {
  bool take_folder = false;  // from another training too that is using it
  std::chrono::milliseconds refresh = ddprun::kOwnerRefresh;
  std::chrono::milliseconds silence = ddprun::kOwnerSilence;
  std::chrono::milliseconds look = ddprun::kOwnerLook;
  std::chrono::milliseconds lock = ddprun::kOwnerLock;
};

// What a process sees that wants a folder.
struct OwnerSeen {
  std::optional<ddprun::CheckpointOwner> owner;  // nothing: nobody has it
  std::chrono::nanoseconds heard{0};             // when the owner said last that it lives
  std::chrono::milliseconds silent{0};           // since then
  bool gone = false;  // it ran on this machine, and there is no such process any more
};

enum class ClaimVerdict {
  kTake,    // the folder is free, or of an earlier generation of this run
  kWait,    // for its owner to fall silent
  kRefuse,  // for good: the folder is a later generation's or a later life's
};

// Pure.
ClaimVerdict JudgeClaim(const ddprun::CheckpointOwner& self, const OwnerSeen& seen,
                        const FolderOwnerOptions& options);

// One thread at a time; one more of its own says every 10 s that the owner lives.
class FolderOwner {
 public:
  FolderOwner(std::string directory, std::optional<ddprun::CheckpointOwner> self,
              FolderOwnerOptions options = {});
  // Does not release the folder: whoever ends in an error, or is killed, is followed by the next
  // generation.
  ~FolderOwner();
  FolderOwner(const FolderOwner&) = delete;
  FolderOwner& operator=(const FolderOwner&) = delete;

  // Makes the folder this process's, and the folder itself where it is missing. False: its owner
  // may still live, which is said on stderr; to be called again after `look`, for `silence` at
  // most. Throws FolderTaken where the folder is somebody else's, and other CheckpointErrors where
  // that cannot be told. Once it was true: does nothing.
  bool TryClaim();
  // Until it is true.
  void Claim();
  std::chrono::milliseconds look() const { return options_.look; }

  // Calls `action` while nobody else may change the folder; claims it first where that was not
  // done. Throws as Claim(), and does not call it, also where the folder has been taken since.
  void Guard(const std::function<void()>& action);

  // The training has ended well: whoever comes next need not wait. Never throws.
  void Release();

 private:
  // The owner file, locked.
  ddprun::OwnerFile OpenLocked() const;
  OwnerSeen Look(const ddprun::OwnerFile& file) const;
  bool IsOurs(const std::optional<ddprun::CheckpointOwner>& owner) const;
  void Take(const ddprun::OwnerFile& file);
  [[noreturn]] void Refuse(const ddprun::CheckpointOwner& owner, const std::string& more) const;
  void StartRefreshing();
  void StopRefreshing();
  void Refresh() const;

  // Constant after construction.
  const std::string directory_;
  const std::optional<ddprun::CheckpointOwner> self_;
  const FolderOwnerOptions options_;

  bool claimed_ = false;
  std::optional<std::chrono::nanoseconds> heard_;  // when the owner was heard for whom we wait

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;  // guarded by mutex_
  std::thread refresher_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_FOLDER_OWNER_H_
