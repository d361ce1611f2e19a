// InitWait: ranks that wait in ddp::init() for ranks that have reported nothing yet. Pure.
#ifndef DDPRUN_RENDEZVOUS_HANGS_INIT_WAIT_H_
#define DDPRUN_RENDEZVOUS_HANGS_INIT_WAIT_H_

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/job_status.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/stack_findings.h"

namespace ddprun {

struct InitWait {
  // A shorter wait is a usual start: ranks import, load and compile.
  static constexpr Duration kTold = std::chrono::seconds(60);

  JobStatus::Arrivals arrivals;  // how many ranks are in init(), and the lowest missing ranks
  Duration longest{};            // the longest wait of a rank in init()
  Rank rank;                     // the lowest missing rank, and its worker
  StillWorker worker{};
};

// nullopt: no rank waits in init(), or no rank is missing. `nodes`: the nodes of a job that has
// made no step, by rank.
std::optional<InitWait> InitWaitOf(const std::vector<StillNode>& nodes);

// "62 of 64 ranks are in init(); missing 17 and 18 on n5: rank 17 (pid 4242) started 71.0 s ago,
// now in read(/data/x)".
std::string Describe(const InitWait& wait, int world_size);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_INIT_WAIT_H_
