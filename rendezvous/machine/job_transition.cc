#include "rendezvous/machine/job_transition.h"

namespace ddprun {

bool IsTransition(JobState from, JobState to) {
  using enum JobState;
  switch (from) {
    case kGathering:
      return to == kGathering || to == kLastCall || to == kForming || to == kFailed;
    case kLastCall:
      return to == kGathering || to == kForming || to == kFailed;
    case kForming:
      return to == kGathering || to == kRunning || to == kFailed;
    case kRunning:
      return to == kSaving || to == kStopping || to == kSucceeded || to == kFailed;
    case kSaving:
      return to == kStopping || to == kSucceeded || to == kFailed;
    case kStopping:
      return to == kGathering || to == kBackoff || to == kFailed;
    case kBackoff:
      return to == kGathering || to == kFailed;
    case kSucceeded:
    case kFailed:
      return false;
  }
  return false;
}

}  // namespace ddprun
