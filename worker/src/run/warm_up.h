// What a warm standby does ahead of time, besides loading its libraries.
#ifndef DDPRUN_WORKER_SRC_RUN_WARM_UP_H_
#define DDPRUN_WORKER_SRC_RUN_WARM_UP_H_

#include <ddp/context.h>

namespace ddp::internal {

// Does what libtorch does at the first use. Changes nothing that a program can see, including
// random numbers. With Options::warm_device it also makes the CUDA context of the worker's GPU.
// Never throws: if there is an error, the worker will meet it again and report it.
void WarmUp(const Options& options);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RUN_WARM_UP_H_
