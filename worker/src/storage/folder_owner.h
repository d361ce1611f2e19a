// Prevents two trainings, or two generations of one training, from writing to one checkpoint
// folder. worker/contract/checkpoint_owner.h describes the file that names the owner.
//
// Within one run, a process of the owner's generation or a later one takes the folder at once (a
// higher requeue number counts as later). So does a process of the same job with a higher requeue
// number. Earlier processes are refused from then on. Any other process takes the folder at once if
// the owner has released it, if the owner's process ended on this machine, or with --take-folder.
// Otherwise it waits until it knows whether the owner still lives: the owner may have died
// unnoticed, or may be cut off from the network. Times come from the file server, so clocks of two
// hosts are never compared.
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

// The identity of this process. nullopt: the environment names no run, so folders need no claim.
std::optional<ddprun::CheckpointOwner> OwnerOfProcess(const Getenv& getenv);

// Another training, a later generation or a later requeue number owns the folder. The text names
// the owner.
class FolderTaken : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

struct FolderOwnerOptions {
  bool take_folder = false;  // also take the folder from a running training
  std::chrono::milliseconds refresh = ddprun::kOwnerRefresh;
  std::chrono::milliseconds silence = ddprun::kOwnerSilence;
  std::chrono::milliseconds look = ddprun::kOwnerLook;
  std::chrono::milliseconds lock = ddprun::kOwnerLock;
};

// What a process sees when it wants a folder.
struct OwnerSeen {
  std::optional<ddprun::CheckpointOwner> owner;  // nullopt: nobody owns it
  std::chrono::nanoseconds heard{0};             // time of the owner's last sign of life
  std::chrono::milliseconds silent{0};           // time since `heard`
  bool gone = false;  // the owner ran on this machine, and its process has ended
};

enum class ClaimVerdict {
  kTake,    // the folder is free, the owner is silent or gone, or `self` may replace it (see above)
  kWait,    // another training may still use it; look again
  kRefuse,  // for good: a later generation or a later requeue number owns the folder
};

// A pure function.
ClaimVerdict JudgeClaim(const ddprun::CheckpointOwner& self, const OwnerSeen& seen,
                        const FolderOwnerOptions& options);

// Only one thread at a time may use it. While it owns the folder, a separate thread renews the sign
// of life every 10 s.
class FolderOwner {
 public:
  FolderOwner(std::string directory, std::optional<ddprun::CheckpointOwner> self,
              FolderOwnerOptions options = {});
  // Does not release the folder, because after an error or a kill the next generation follows.
  ~FolderOwner();
  FolderOwner(const FolderOwner&) = delete;
  FolderOwner& operator=(const FolderOwner&) = delete;

  // Claims the folder for this process, and creates it if it is missing. False: the folder's owner
  // may still be alive. Then call TryClaim() again after look(). The first such call says this on
  // stderr. A call that comes `silence` or more after the first one returns true or throws. Throws
  // FolderTaken if a later generation or requeue number owns the folder, or if another training has
  // shown a sign of life since the last call. Throws another CheckpointError if the folder cannot
  // be created, or the owner file cannot be locked, read or written. Does nothing once it has
  // returned true.
  bool TryClaim();
  // Repeats TryClaim() until it returns true.
  void Claim();
  std::chrono::milliseconds look() const { return options_.look; }

  // Calls `action` under the lock of the owner file. Claims the folder first if needed. If Claim()
  // throws, or if another process has taken the folder since, throws and does not call `action`.
  // Without `self`, only calls `action`.
  void Guard(const std::function<void()>& action);

  // Call it when the training has ended well, so that the next owner need not wait. Never throws.
  void Release();

 private:
  // Opens the owner file and locks it.
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
  std::optional<std::chrono::nanoseconds> heard_;  // OwnerSeen::heard, while TryClaim() waits

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;  // guarded by mutex_
  std::thread refresher_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_FOLDER_OWNER_H_
