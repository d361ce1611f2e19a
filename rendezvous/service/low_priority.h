// For threads of the rendezvous whose work is less urgent than heartbeats.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LOW_PRIORITY_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LOW_PRIORITY_H_

namespace ddprun {

// Sets whether the calling thread preempts others when it wakes: SCHED_OTHER if it may, else
// SCHED_BATCH. True: the policy has changed. A thread with another policy than these two keeps it.
// Threads that the thread starts inherit the policy.
bool SetPreempts(bool may);

// Gives the calling thread nice 10 and SCHED_BATCH, so that it preempts no other thread when it
// wakes. Not SCHED_IDLE: while ranks compute on the same host, the thread would not run. May be
// called again.
void LowerPriority();

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LOW_PRIORITY_H_
