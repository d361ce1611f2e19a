// The work of a warm standby ahead of time, besides loading its libraries.
#ifndef DDPRUN_WORKER_SRC_RUN_WARM_UP_H_
#define DDPRUN_WORKER_SRC_RUN_WARM_UP_H_

#include <ddp/context.h>

namespace ddp::internal {

// Runs the first-use initialization of libtorch. Changes nothing that a program can see, including
// random numbers. With Options::warm_device it also makes the CUDA context of LOCAL_RANK's GPU.
// Never throws: the worker will meet the error itself and report it.
void WarmUp(const Options& options);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RUN_WARM_UP_H_
