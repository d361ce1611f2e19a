// Looks whether the folder of checkpoints belongs to a later life of this job: then this one is
// what is left of a job that was started again elsewhere while this node was cut off, and neither
// side can hear the other. See worker/contract/checkpoint_owner.h.
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

// This life of the job, as its owner files name it. SLURM_JOB_ID is the agent's, which the workers
// inherit: names of jobs need not differ.
CheckpointOwner LifeOf(const std::string& job, std::uint32_t requeue_number);

// Makes the folder that of `life`, should it have been that of an earlier life of the same job;
// never where another job of Slurm has it. May block on the disk; what goes wrong there is for who
// writes checkpoints to say.
void ClaimFromEarlierLife(const std::string& folder, const CheckpointOwner& life);

// Releases the folder where it is held by this process's run, with this requeue number and
// generation: its job has ended, and so have its workers, whether they came to release it or not.
// Where the process that holds it is still there (in an uninterruptible wait), it keeps the folder.
// May block on the disk.
void ReleaseFolder(const std::string& folder, const CheckpointOwner& holder);

// Belongs to the loop's thread.
class OwnerWatch {
 public:
  struct Options {
    std::string folder;
    CheckpointOwner life;  // LifeOf()
    std::chrono::milliseconds interval{3000};
  };

  // Looks at once and then every `interval`, on a thread of its own. `superseded` is called on the
  // loop, at most once, with a sentence for people, unless this is destroyed before. `loop` must
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
