// What durable checkpoints a node has: looks at files, without loading them.
//
// A folder on a network may not answer for minutes, so the agent looks from a thread of its own
// (CheckpointScan) and gives up waiting after a while.
#ifndef DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_CHECKPOINT_SCAN_H_
#define DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_CHECKPOINT_SCAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/core/node_states.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"

namespace ddprun {

struct ScanRequest {
  std::string job;                   // files of others were made before it
  std::string folder;                // DDPRUN_CHECKPOINT_DIR, or empty
  std::vector<SavedFile> named;      // by workers, wherever they are
  std::uint32_t requeue_number = 0;  // of the job
  // checkpoint.start_anew: no file of the folder counts that another job made, and in a job's first
  // life none of these, which were there before it; not set: all were.
  bool anew = false;
  std::optional<std::set<std::string>> before{};
  // Of those the files of this run count all the same: it was there before this agent. May be
  // empty.
  std::string run{};
};

struct ScanResult {
  std::vector<SavedFile> files;
  std::set<std::string>
      before{};  // paths of checkpoints in the folder that do not count for `anew`
  // One line for each file and folder that is there and cannot be read.
  std::vector<std::string> problems{};
};

// The newest whole checkpoints of the folder, a few, and those of `named` that are still there. A
// safetensors file is whole where its length is what its header says, any other where it is not
// empty. One that cannot be read is not one that is damaged: it is told by its name, made by nobody
// knows whom, and its workers will say whether they can read it. May block on the disk.
ScanResult FindCheckpoints(const ScanRequest& request);

// FindCheckpoints on a thread, which first makes the folder this life's (owner_watch.h): of an
// earlier one nothing appears or vanishes there after that. Belongs to the loop's thread.
class CheckpointScan {
 public:
  using Done = std::function<void(ScanResult)>;

  // Starts at once; `done` is called on the loop, unless the scan is destroyed before: then the
  // thread is left behind with what it waits for. `loop` must outlive this object.
  CheckpointScan(EventLoop* loop, ScanRequest request, Done done);

 private:
  OffLoop thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_CHECKPOINT_SCAN_H_
