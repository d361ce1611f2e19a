// A state that a node holds, and the state that a generation begins with.
//
// (requeue number, generation, step) identify a state: the generation whose workers made it, and
// the step after which they made it. The tier says where it is: in memory (DDPRUN_SNAPSHOT_DIR), or
// durable on a disk.
#ifndef DDPRUN_RENDEZVOUS_CORE_SAVED_STATE_H_
#define DDPRUN_RENDEZVOUS_CORE_SAVED_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/core/types.h"

namespace ddprun {

enum class Tier { kMemory, kDurable };
// memory | durable
const char* ToString(Tier tier);

struct SavedState {
  std::uint32_t requeue_number = 0;
  Generation generation;  // −1: made before this job, or not known
  std::int64_t step = 0;
  Tier tier = Tier::kMemory;
  // The file of this step exists but could not be read, so it is not known which generation made
  // it.
  bool unreadable = false;

  bool operator==(const SavedState&) const = default;
};

// An agent reports at most this many: the newest of each tier, and older ones.
inline constexpr std::size_t kMaxSavedStates = 8;

// The state that every rank of a generation begins with. JobMachine decides it once, when the
// generation forms.
struct RestorePlan {
  // nullopt: no member holds a state that may be used (docs/recovery.md has the rules). The
  // training starts at step 0.
  std::optional<SavedState> state;
  Rank source;       // the rank that holds the state and sends it to the others
  std::string host;  // of the source, for people
  // A newer checkpoint that was reported before, but that no member lists among its states. The
  // node Unseen::host may hold it, because a part of its disk cannot be read. The workers look for
  // this checkpoint first.
  struct Unseen {
    SavedState state;
    Rank source;
    std::string host;
    bool operator==(const Unseen&) const = default;
  };
  std::optional<Unseen> unseen{};

  std::int64_t step() const { return state ? state->step : 0; }
  // The highest step that the workers may begin with.
  std::int64_t highest_step() const { return unseen ? unseen->state.step : step(); }
  bool operator==(const RestorePlan&) const = default;
};

// "resumes at step 1200 from rank 2 (memory of node b)", "starts at step 0: no node holds ..."
std::string Describe(const RestorePlan& plan);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_SAVED_STATE_H_
