// Connects the ranks with a deadline, because libtorch may wait for ever for a rank that has ended.
#ifndef DDPRUN_WORKER_SRC_GROUP_CONNECT_WITH_DEADLINE_H_
#define DDPRUN_WORKER_SRC_GROUP_CONNECT_WITH_DEADLINE_H_

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "worker/src/agent/launch_environment.h"

namespace ddp::internal {

// Calls `connect` on a thread of its own and returns its result. Waits for at most `limit`, and
// less if another rank has failed, or if this process leaves its generation. If `connect` has not
// returned by then, the thread continues to run, so `connect` must own what it uses. Throws
// CollectiveError with the exception of `connect`, or with the reason why waiting is useless.
// Before it throws, it tells the other ranks, unless a rank has already reported a cause or this
// process leaves. `hint` is added to the text of a timeout.
c10::intrusive_ptr<c10d::ProcessGroup> ConnectWithDeadline(
    const LaunchEnvironment& env, std::chrono::milliseconds limit, const std::string& hint,
    std::function<c10::intrusive_ptr<c10d::ProcessGroup>()> connect);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_CONNECT_WITH_DEADLINE_H_
