// For threads of the rendezvous whose work is less urgent than heartbeats.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LOW_PRIORITY_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LOW_PRIORITY_H_

namespace ddprun {

// Gives the calling thread SCHED_BATCH: when it wakes, it preempts no other thread. Changes nothing
// if the thread has another policy than SCHED_OTHER.
void NeverPreempt();

// Gives the calling thread nice 10 and SCHED_BATCH, so that it preempts no other thread when it
// wakes. Not SCHED_IDLE: while ranks compute on the same host, the thread would not run. May be
// called again.
void LowerPriority();

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LOW_PRIORITY_H_
