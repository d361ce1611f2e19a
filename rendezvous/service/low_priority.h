// LowerPriority(): for threads of the rendezvous whose work can wait while heartbeats cannot.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LOW_PRIORITY_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LOW_PRIORITY_H_

namespace ddprun {

// Gives the calling thread nice 10 and SCHED_BATCH, so that it preempts no other thread when it
// wakes. Not SCHED_IDLE: beside computing ranks the thread would not run. May be called again.
void LowerPriority();

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LOW_PRIORITY_H_
