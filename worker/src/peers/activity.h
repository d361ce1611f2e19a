// What this process is doing, in words: told to the other ranks when a collective fails, so that
// the message can say who did not come, and where they are instead.
#ifndef DDPRUN_WORKER_SRC_PEERS_ACTIVITY_H_
#define DDPRUN_WORKER_SRC_PEERS_ACTIVITY_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace ddp::internal {

struct Activity {
  std::string what;                  // "is in backward of step 3": the end of "rank 1 …"
  std::chrono::milliseconds age{0};  // how long it has been that
};

// The process's own. Every function may be called from any thread; each costs some 50 ns.
Activity CurrentActivity();

// The parts of a training step, as DistributedDataParallel sees them. `step` counts from 1.
void EnterForward(std::int64_t step);
void LeaveForward();   // a backward pass is to follow
void EnterBackward();  // a gradient was computed; free unless it is the first
void LeaveBackward();
bool AwaitsBackward();

// A collective operation that is not part of backward, while this lives. Does not nest.
class InCollective {
 public:
  explicit InCollective(const std::string& name);
  ~InCollective();
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;
};

// How long this process has been in collectives so far, where it waits for other ranks: while
// InCollectives lived, and what was added. Any thread.
std::chrono::nanoseconds TimeInCollectives();
void AddTimeInCollectives(std::chrono::nanoseconds time);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_ACTIVITY_H_
