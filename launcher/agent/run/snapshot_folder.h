// The folder of a node's snapshots in memory: DDPRUN_SNAPSHOT_DIR.
//
//     /dev/shm/ddprun-<user id>-<job>-<requeue number>-<unique>/         mode 0700
//                                                     .owner    locked while its agent lives
//
// The agent makes it when the job starts, and it outlives workers and generations. It is removed
// when the job ends; by the guardian when the agent was killed; and where both were, by the next
// ddprun of that user on the node, which finds that nobody holds the lock (flock: the kernel gives
// it up with the last process that has it, whatever ended that, also in another container).
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
  std::string cgroups = "/sys/fs/cgroup";  // version 2; its limits count what is in /dev/shm
  std::string self_cgroup = "/proc/self/cgroup";
  std::uint64_t least_room = 64 << 20;  // bytes; a worker still checks for its own state
};

class SnapshotFolder {
 public:
  // Removes stale ones, then makes this job's. ResourceExhausted: there is no room, and how much
  // there is. Other errors name the folder.
  static absl::StatusOr<SnapshotFolder> Create(const std::string& job, std::uint32_t requeue_number,
                                               const SnapshotPlace& place = {});

  SnapshotFolder(SnapshotFolder&&) noexcept = default;
  SnapshotFolder& operator=(SnapshotFolder&&) = delete;

  const std::string& path() const { return path_; }

  // With all that is in it. Also in the guardian, whose copy this is then.
  void Remove();

 private:
  SnapshotFolder(std::string path, UniqueFd owner);

  std::string path_;
  UniqueFd owner_;  // the lock
};

// Bytes that may still be put into the root, by its file system and by every memory limit above
// this process.
std::uint64_t SnapshotRoom(const SnapshotPlace& place);

// Removes this user's folders that no agent holds; returns their paths.
std::vector<std::string> RemoveStaleSnapshots(const SnapshotPlace& place);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_RUN_SNAPSHOT_FOLDER_H_
