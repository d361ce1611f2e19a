// How far one worker of this node is: what the judge of hangs reads at each heartbeat. Pure.
#ifndef DDPRUN_LAUNCHER_CORE_WORKER_PROGRESS_H_
#define DDPRUN_LAUNCHER_CORE_WORKER_PROGRESS_H_

#include "rendezvous/core/types.h"
#include "worker/contract/progress.h"

namespace ddprun {

enum class ProgressSource {
  kNone,      // the worker has told nothing
  kMessages,  // READY, STEP, PHASE and others on the control socket; no collectives
  kPage,      // its progress page
};

struct WorkerProgress {
  LocalRank local_rank;
  ProgressSource source = ProgressSource::kNone;
  bool said_bye = false;  // it is about to exit 0
  // `moves` also counts the worker's messages, and never goes back in a generation. Times are
  // CLOCK_MONOTONIC of this host, as TimePoint. Of kMessages: step, phase and moves alone.
  ProgressSnapshot now;
  TimePoint moved_at{};  // when a message came, or `moves` was first seen to be what it is
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_WORKER_PROGRESS_H_
