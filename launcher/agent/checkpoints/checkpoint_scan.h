// Finds the durable checkpoints of a node. Reads file sizes and headers only.
//
// A network folder may not answer for minutes, so the agent scans on a separate thread
// (CheckpointScan) and does not wait for it.
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
  std::string job;                   // files of other jobs count as older than this job's
  std::string folder;                // DDPRUN_CHECKPOINT_DIR, or empty
  std::vector<SavedFile> named;      // reported by workers, in any folder, or found before
  std::uint32_t requeue_number = 0;  // of the job
  // checkpoint.start_anew: files that another job made do not count. If the job was not requeued,
  // the files in `before` do not count either; if `before` is not set, no existing file counts.
  bool anew = false;
  std::optional<std::set<std::string>> before{};
  // Files of this run always count: the run began before this agent joined. May be empty.
  std::string run{};
};

struct ScanResult {
  std::vector<SavedFile> files;
  std::set<std::string> before{};  // paths of checkpoints in the folder that `anew` excludes
  // The folder cannot be listed, or it has a file that this run may have made and that cannot be
  // read. So the disk may hold a state that is not in `files`.
  bool incomplete = false;
  // One line for each file or folder that exists but cannot be read.
  std::vector<std::string> problems{};
};

// The newest whole checkpoints of the folder, at most 4, and the files of `named` that still exist.
// A safetensors file is whole if its length matches its header. Another file is whole if it is not
// empty. A file that cannot be read does not count as damaged, because the workers may be able to
// read it. Then the step comes from the file's name, and the generation is not known. May block on
// the disk.
ScanResult FindCheckpoints(const ScanRequest& request);

// FindCheckpoints on a separate thread. The thread first claims the folder for this life of the job
// (the job under one requeue number: owner_watch.h), if it can. After that no earlier life adds or
// removes files there. Belongs to the loop's thread.
class CheckpointScan {
 public:
  using Done = std::function<void(ScanResult)>;

  // Starts at once. Calls `done` on the loop. If this object is destroyed before, `done` is not
  // called, and the thread ends by itself. `loop` must outlive this object.
  CheckpointScan(EventLoop* loop, ScanRequest request, Done done);

 private:
  OffLoop thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_CHECKPOINT_SCAN_H_
