// What a warm standby does ahead of time, beside loading its libraries.
#ifndef DDPRUN_WORKER_SRC_RUN_WARM_UP_H_
#define DDPRUN_WORKER_SRC_RUN_WARM_UP_H_

#include <ddp/context.h>

namespace ddp::internal {

// Lets libtorch make what it makes at its first use. Changes nothing that a program can see, random
// numbers included. With Options::warm_device it also makes the CUDA context of LOCAL_RANK's GPU.
// Never throws: the worker will find out, and can say it.
void WarmUp(const Options& options);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RUN_WARM_UP_H_
