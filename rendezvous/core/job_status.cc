#include "rendezvous/core/job_status.h"

namespace ddprun {

const char* ToString(JobState state) {
  switch (state) {
    case JobState::kGathering:
      return "Gathering";
    case JobState::kLastCall:
      return "LastCall";
    case JobState::kForming:
      return "Forming";
    case JobState::kRunning:
      return "Running";
    case JobState::kSaving:
      return "Saving";
    case JobState::kStopping:
      return "Draining";
    case JobState::kBackoff:
      return "Backoff";
    case JobState::kSucceeded:
      return "Succeeded";
    case JobState::kFailed:
      return "Failed";
  }
  return "?";
}

}  // namespace ddprun
