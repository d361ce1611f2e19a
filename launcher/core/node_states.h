// NodeStates: what this node holds of the training, and tells the rendezvous. Pure.
//
// In memory it is what the workers reported last: of the two slots of a snapshot folder the other
// one may be half written. On the disk it is what was found there, as long as no worker runs, and
// what the workers report while they do.
#ifndef DDPRUN_LAUNCHER_CORE_NODE_STATES_H_
#define DDPRUN_LAUNCHER_CORE_NODE_STATES_H_

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/saved_state.h"

namespace ddprun {

// A durable state, and where it is.
struct SavedFile {
  SavedState state;
  std::string path;  // as a worker named it

  bool operator==(const SavedFile&) const = default;
};

class NodeStates {
 public:
  // Workers of `generation` reported it.
  void OnSnapshot(std::uint32_t requeue_number, Generation generation, std::int64_t step);
  void OnCheckpoint(std::uint32_t requeue_number, Generation generation, std::int64_t step,
                    const std::string& path);
  // Of all that is on the disk: what else there was is gone.
  void OnFound(std::vector<SavedFile> files);
  // A generation starts with this plan: what is past its step is of a dead timeline.
  void OnStarted(const RestorePlan& plan);

  // The files that workers have named, for who looks whether they are still there.
  const std::vector<SavedFile>& files() const { return files_; }

  // The newest first, at most kMaxSavedStates.
  std::vector<SavedState> List() const;

  // Puts List() into Join, Stopped and HeldStates, and into a Heartbeat where it has changed since.
  void FillIn(AgentMessage* message);

 private:
  std::optional<SavedState> memory_;
  std::vector<SavedFile> files_;  // the newest first
  std::vector<SavedState> told_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_NODE_STATES_H_
