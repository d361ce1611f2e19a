#include "rendezvous/core/messages.h"

namespace ddprun {

const char* ToString(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSucceeded:
      return "succeeded";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kLeft:
      return "left";
    case Outcome::kTimedOut:
      return "unreachable";
    case Outcome::kPreempted:
      return "preempted";
  }
  return "?";
}

}  // namespace ddprun
