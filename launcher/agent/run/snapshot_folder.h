// The folder of a node's snapshots in memory: DDPRUN_SNAPSHOT_DIR.
//
//     /dev/shm/ddprun-<user id>-<job>-<requeue number>-<unique>/         mode 0700
//                                                     .owner    locked while its agent lives
//
// The agent makes the folder when the job starts. It outlives workers and generations. The agent
// removes it when the job ends; if the agent was killed, the guardian removes it. If both were
// killed, no process holds the lock any more: then the next ddprun of that user on the node removes
// the folder. The lock is a flock: the kernel drops it when its last holder ends, even if the
// holder ran in another container.
#ifndef DDPRUN_LAUNCHER_AGENT_RUN_SNAPSHOT_FOLDER_H_
#define DDPRUN_LAUNCHER_AGENT_RUN_SNAPSHOT_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

struct SnapshotPlace {
  std::string root = "/dev/shm";
  std::string cgroups = "/sys/fs/cgroup";  // version 2; their limits include /dev/shm
  std::string self_cgroup = "/proc/self/cgroup";
  std::uint64_t least_room = 64 << 20;  // bytes; each worker also checks the room for its own state
};

class SnapshotFolder {
 public:
  // Removes stale folders, then makes the folder of this job. ResourceExhausted: not enough room;
  // the message says how much room there is. Other errors name the folder.
  static absl::StatusOr<SnapshotFolder> Create(const std::string& job, std::uint32_t requeue_number,
                                               const SnapshotPlace& place = {});

  SnapshotFolder(SnapshotFolder&&) noexcept = default;
  SnapshotFolder& operator=(SnapshotFolder&&) = delete;

  const std::string& path() const { return path_; }

  // Removes the folder with its content. The guardian calls this on its own copy of the object.
  void Remove();

 private:
  SnapshotFolder(std::string path, UniqueFd owner);

  std::string path_;
  UniqueFd owner_;  // the lock
};

// Bytes that still fit into the root: the least that its file system and each cgroup memory limit
// above this process allow.
std::uint64_t SnapshotRoom(const SnapshotPlace& place);

// Removes this user's folders that no agent has locked; returns their paths. A folder without a
// lock file stays for its first 60 s: its agent may be about to make the lock.
std::vector<std::string> RemoveStaleSnapshots(const SnapshotPlace& place);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_RUN_SNAPSHOT_FOLDER_H_
