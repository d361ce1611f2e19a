// The present activity of this process, as text. The other ranks get it when a collective fails, so
// that the error can say which ranks did not enter the collective and what they do instead.
#ifndef DDPRUN_WORKER_SRC_PEERS_ACTIVITY_H_
#define DDPRUN_WORKER_SRC_PEERS_ACTIVITY_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace ddp::internal {

struct Activity {
  std::string what;                  // continues "rank 1 …": "is in backward of step 3"
  std::chrono::milliseconds age{0};  // for how long
};

// The activity of this process. Any thread; each function costs about 50 ns.
Activity CurrentActivity();

// The parts of a training step, as DistributedDataParallel sees them. `step` counts from 1.
void EnterForward(std::int64_t step);
void LeaveForward();   // a backward pass follows
void EnterBackward();  // a gradient was computed; only the first one costs something
void LeaveBackward();
bool AwaitsBackward();

// Marks a collective that is not part of backward, for as long as this lives. Does not nest.
class InCollective {
 public:
  explicit InCollective(const std::string& name);
  ~InCollective();
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;
};

// How long this process has been in collectives so far, waiting for other ranks: the lifetimes of
// all InCollective objects, plus what AddTimeInCollectives() added. Any thread.
std::chrono::nanoseconds TimeInCollectives();
void AddTimeInCollectives(std::chrono::nanoseconds time);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_ACTIVITY_H_
