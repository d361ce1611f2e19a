// The progress of one worker of this node, read by StillWatch at each heartbeat. Pure.
#ifndef DDPRUN_LAUNCHER_CORE_WORKER_PROGRESS_H_
#define DDPRUN_LAUNCHER_CORE_WORKER_PROGRESS_H_

#include "rendezvous/core/types.h"
#include "worker/contract/progress.h"

namespace ddprun {

enum class ProgressSource {
  kNone,      // the worker has reported nothing
  kMessages,  // READY, STEP, PHASE and others on the control socket; a page may add collectives
  kPage,      // its progress page
};

struct WorkerProgress {
  LocalRank local_rank;
  ProgressSource source = ProgressSource::kNone;
  bool said_bye = false;  // the worker is about to exit with 0
  // `moves` also counts the worker's messages, and never decreases within a generation. Times are
  // CLOCK_MONOTONIC of this host, like TimePoint. With kMessages, only the step, the phases and
  // `moves` are set, and `groups` if the worker has a page with only collectives.
  ProgressSnapshot now;
  TimePoint moved_at{};  // the time of a message, or of the first look with this value of `moves`
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_WORKER_PROGRESS_H_
