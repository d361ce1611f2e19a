// The folders of one run on this node.
//
//     <log-dir>/<rdzv-id>_<unique>/attempt_<generation>/<local rank>/{stdout,stderr}.log,
//     error.json
//                                                      /by_rank/<rank> -> ../<local rank>
//     <log-dir>/<rdzv-id>_<unique>/standby/<n>/{stdout,stderr}.log    what a warm standby wrote
//     before it became a worker; attempt_<generation>/<local rank>/standby points there
//     <log-dir>/<rdzv-id>_<unique>/fork_server/{stdout,stderr}.log    what the modules of --preload
//     wrote when they were imported; attempt_<generation>/<local rank>/standby points there, too
//     <log-dir>/<rdzv-id>_<unique>/.owner    the host, and the agent's lock: run_retention.h
//     <temporary>/ddprun-<unique>/    sockets, python/; removed when the run ends
//     /dev/shm/ddprun-<...>/          snapshots; removed when the run ends: snapshot_folder.h
//
// The folders in <log-dir> have torchrun's layout, and stay when the run ends. Used from the
// agent's thread only.
#ifndef DDPRUN_LAUNCHER_AGENT_RUN_RUN_DIRECTORY_H_
#define DDPRUN_LAUNCHER_AGENT_RUN_RUN_DIRECTORY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/agent/run/snapshot_folder.h"
#include "launcher/python/python_path.h"
#include "rendezvous/core/types.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class RunDirectory {
 public:
  // Makes the folders. The error names the folder that cannot be made, and the reason. If only the
  // folder of snapshots cannot be made, the run goes on: snapshots() is empty, and
  // why_no_snapshots() has the reason.
  static absl::StatusOr<RunDirectory> Create(const std::string& log_dir, const std::string& job,
                                             std::uint32_t requeue_number);

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;
  ~RunDirectory();  // RemoveTemporary()

  // Makes the folder for Python workers below sockets(): launcher/python/python_path.h.
  absl::Status AddPythonFolder(PythonHooks hooks);

  // Removes sockets() and snapshots(). If the agent was killed, the guardian removes them.
  void RemoveTemporary();

  const std::string& path() const { return path_; }
  const std::string& sockets() const { return sockets_; }
  // The entry to put first in a Python worker's PYTHONPATH; "" without AddPythonFolder().
  const std::string& python_path() const { return python_path_; }
  std::string snapshots() const { return snapshots_ ? snapshots_->path() : ""; }
  const std::string& why_no_snapshots() const { return why_no_snapshots_; }
  // Why later runs cannot see when this run is over, and so will not remove its folder
  // (logs.keep_runs). "": they can see it.
  const std::string& why_not_owned() const { return why_not_owned_; }

  // These functions return paths and make no folder. WriterThread makes the folders of a standby
  // and of the fork server when it opens their log files.
  std::string WorkerFolder(Generation generation, LocalRank local_rank) const;
  std::string ErrorFile(Generation generation, LocalRank local_rank) const;
  std::string StandbyFolder(int standby) const;
  std::string ForkServerFolder() const;

 private:
  RunDirectory() = default;

  std::string path_;
  std::string sockets_;
  std::string python_path_;
  std::optional<SnapshotFolder> snapshots_;
  std::string why_no_snapshots_;
  UniqueFd owner_;  // the lock
  std::string why_not_owned_;
};

// The prefix of the names of this job's run directories; six letters and digits follow.
std::string RunPrefix(const std::string& job);
// The owner file in a run directory. Its first line is the host name. The agent holds a lock on it
// while it lives.
std::string RunOwnerFile(const std::string& run);

// The functions below may block on the disk: do not call them on the agent's loop.

// The first worker whose folder, or link in by_rank, could not be made. If `error` is "", all
// folders were made.
struct MadeFolders {
  LocalRank local_rank;
  std::string error;
  bool full = false;  // no space, or the quota is used up: a later call may succeed
};
// Makes the folders of one generation's workers and their by_rank links in the run directory
// `path`. `first_rank`: the rank of the first worker. A repeated call makes the missing folders.
MadeFolders MakeWorkerFolders(const std::string& path, Generation generation, Rank first_rank,
                              int workers);
// Makes a link in a worker's folder to `folder`, which has the worker's output as a standby.
void LinkStandby(const std::string& worker_folder, const std::string& folder);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_RUN_RUN_DIRECTORY_H_
