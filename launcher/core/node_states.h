// NodeStates: the states of the training that this node holds and reports to the rendezvous. Pure.
//
// In memory: only the newest state that the workers reported, because a snapshot folder has two
// slots, and the older one may be half overwritten. On disk: the files that a scan found while no
// worker ran, and the files that running workers reported.
#ifndef DDPRUN_LAUNCHER_CORE_NODE_STATES_H_
#define DDPRUN_LAUNCHER_CORE_NODE_STATES_H_

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/saved_state.h"

namespace ddprun {

// A durable state and its file.
struct SavedFile {
  SavedState state;
  std::string path;  // as a worker named it, or as a scan found it

  bool operator==(const SavedFile&) const = default;
};

class NodeStates {
 public:
  // Workers of `generation` reported this state.
  void OnSnapshot(std::uint32_t requeue_number, Generation generation, std::int64_t step);
  void OnCheckpoint(std::uint32_t requeue_number, Generation generation, std::int64_t step,
                    const std::string& path);
  // `files`: the result of a scan. Forgets all other files. `incomplete`: a part of the disk could
  // not be read, and may hold another state.
  void OnFound(std::vector<SavedFile> files, bool incomplete = false);
  // A generation starts with this plan. Forgets the states of later steps: they are on a dead
  // timeline (docs/recovery.md).
  void OnStarted(const RestorePlan& plan);

  // The durable states. The next scan checks whether their files still exist.
  const std::vector<SavedFile>& files() const { return files_; }

  // The newest first, at most kMaxSavedStates.
  std::vector<SavedState> List() const;

  // Puts List() into Join, Stopped and HeldStates, and into a Heartbeat if it has changed.
  void FillIn(AgentMessage* message);

 private:
  std::optional<SavedState> memory_;
  std::vector<SavedFile> files_;  // the newest first
  bool incomplete_ = false;       // as the last OnFound() said
  std::vector<SavedState> told_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_NODE_STATES_H_
