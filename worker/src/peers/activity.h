// What this process is doing now, as text. The other ranks get the text when a collective fails. So
// the error can say which ranks did not enter the collective, and what they do instead.
#ifndef DDPRUN_WORKER_SRC_PEERS_ACTIVITY_H_
#define DDPRUN_WORKER_SRC_PEERS_ACTIVITY_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace ddp::internal {

struct Activity {
  std::string what;                  // follows "rank 1 …", for example "is in backward of step 3"
  std::chrono::milliseconds age{0};  // how long it has been so
};

// Any thread. Each function of this file costs about 50 ns.
Activity CurrentActivity();

// The parts of a training step, as DistributedDataParallel sees them. `step` counts from 1.
void EnterForward(std::int64_t step);
void LeaveForward();   // a backward pass follows
void EnterBackward();  // a gradient was computed; after the first one of a backward it does nothing
void LeaveBackward();
bool AwaitsBackward();

// Marks a collective, while the object exists. Not for the averaging of gradients. Does not nest.
class InCollective {
 public:
  explicit InCollective(const std::string& name);
  ~InCollective();
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;
};

// How long this process has waited for other ranks in collectives so far: the lifetimes of all
// InCollective objects, plus what AddTimeInCollectives() added. Any thread.
std::chrono::nanoseconds TimeInCollectives();
void AddTimeInCollectives(std::chrono::nanoseconds time);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_ACTIVITY_H_
