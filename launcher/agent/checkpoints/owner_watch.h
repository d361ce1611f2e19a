// Watches whether a later life of this job owns the checkpoint folder. A life is the job under one
// requeue number. If a later life owns the folder, the job was started again elsewhere while this
// node was cut off, and the two sides cannot communicate. See worker/contract/checkpoint_owner.h.
#ifndef DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_OWNER_WATCH_H_
#define DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_OWNER_WATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "worker/contract/checkpoint_owner.h"

namespace ddprun {

// This life of the job, as written in owner files. It contains the agent's SLURM_JOB_ID, which the
// workers inherit, because job names need not be unique.
CheckpointOwner LifeOf(const std::string& job, std::uint32_t requeue_number);

// Claims the folder for `life` if an earlier life of the same job owns it. Never claims it from
// another Slurm job. Reports no errors, because the writer of checkpoints reports them. May block
// on the disk.
void ClaimFromEarlierLife(const std::string& folder, const CheckpointOwner& life);

// Releases the folder if `holder` holds it: the same job, run, requeue number and generation. Call
// it when the job and its workers have ended, because a killed worker has not released the folder.
// If the holding process still lives (in an uninterruptible wait), it keeps the folder. May block
// on the disk.
void ReleaseFolder(const std::string& folder, const CheckpointOwner& holder);

// Belongs to the loop's thread.
class OwnerWatch {
 public:
  struct Options {
    std::string folder;
    CheckpointOwner life;  // LifeOf()
    std::chrono::milliseconds interval{3000};
  };

  // Looks at once and then every `interval`, on a separate thread. Calls `superseded` on the loop,
  // at most once, with a sentence for people, unless this object is destroyed before. `loop` must
  // outlive this object.
  OwnerWatch(EventLoop* loop, Options options, std::function<void(std::string)> superseded);
  ~OwnerWatch();
  OwnerWatch(const OwnerWatch&) = delete;
  OwnerWatch& operator=(const OwnerWatch&) = delete;

 private:
  void Look();

  EventLoop* const loop_;
  const Options options_;
  const std::function<void(std::string)> superseded_;
  EventLoop::TimerId next_look_ = 0;
  OffLoop thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_OWNER_WATCH_H_
