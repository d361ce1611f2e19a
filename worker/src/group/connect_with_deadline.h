// Connecting the ranks, with a wait that ends: libtorch's own may be for ever, for a rank that has
// ended meanwhile.
#ifndef DDPRUN_WORKER_SRC_GROUP_CONNECT_WITH_DEADLINE_H_
#define DDPRUN_WORKER_SRC_GROUP_CONNECT_WITH_DEADLINE_H_

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "worker/src/agent/launch_environment.h"

namespace ddp::internal {

// Calls `connect` on a thread and returns what that does. Waits for it for `limit`, and less where
// another rank has failed; then the thread is left behind, so `connect` must own what it uses.
// Throws CollectiveError with what `connect` has thrown, or why there is no use in waiting, after
// telling the other ranks. `hint` goes to the end of the text that says that time was over.
c10::intrusive_ptr<c10d::ProcessGroup> ConnectWithDeadline(
    const LaunchEnvironment& env, std::chrono::milliseconds limit, const std::string& hint,
    std::function<c10::intrusive_ptr<c10d::ProcessGroup>()> connect);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_CONNECT_WITH_DEADLINE_H_
