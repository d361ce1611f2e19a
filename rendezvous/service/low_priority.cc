#include "rendezvous/service/low_priority.h"

#include <sched.h>
#include <sys/resource.h>

namespace ddprun {

bool SetPreempts(bool may) {
  const int policy = sched_getscheduler(0);
  if (policy != (may ? SCHED_BATCH : SCHED_OTHER)) return false;
  const sched_param none{};
  return sched_setscheduler(0, may ? SCHED_OTHER : SCHED_BATCH, &none) == 0;
}

void LowerPriority() {
  constexpr int kNice = 10;
  SetPreempts(false);
  // Linux takes PRIO_PROCESS with 0 for the calling thread.
  if (getpriority(PRIO_PROCESS, 0) < kNice) setpriority(PRIO_PROCESS, 0, kNice);
}

}  // namespace ddprun
