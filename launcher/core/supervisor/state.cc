#include "launcher/core/supervisor/state.h"

namespace ddprun {

const char* ToString(SupervisorState state) {
  switch (state) {
    case SupervisorState::kJoining:
      return "Joining";
    case SupervisorState::kSpawning:
      return "Spawning";
    case SupervisorState::kRunning:
      return "Running";
    case SupervisorState::kStopping:
      return "Stopping";
    case SupervisorState::kLeaving:
      return "Leaving";
    case SupervisorState::kFenced:
      return "Fenced";
    case SupervisorState::kDone:
      return "Done";
    case SupervisorState::kFailed:
      return "Failed";
  }
  return "?";
}

bool MayFollow(SupervisorState state, SupervisorState next) {
  using enum SupervisorState;
  switch (state) {
    case kJoining:
      return next == kSpawning || next == kStopping || next == kLeaving;
    case kSpawning:
      return next != kDone && next != kFailed && next != kFenced;
    case kRunning:
      return next == kSpawning || next == kStopping || next == kLeaving || next == kFenced;
    case kStopping:
      return next == kJoining || next == kLeaving || next == kFenced || next == kDone ||
             next == kFailed;
    case kFenced:
      return next == kJoining || next == kLeaving || next == kDone || next == kFailed;
    case kLeaving:
      return next == kFailed;
    case kDone:
    case kFailed:
      return false;
  }
  return false;
}

}  // namespace ddprun
