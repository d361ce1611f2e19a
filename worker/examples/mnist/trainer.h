// The training of mnist_ddp, from joining the job to the final accuracy.
#ifndef DDPRUN_WORKER_EXAMPLES_MNIST_TRAINER_H_
#define DDPRUN_WORKER_EXAMPLES_MNIST_TRAINER_H_

#include "worker/examples/mnist/flags.h"

namespace mnist {

// Returns the exit code, or ends the process, like ddp::run_in_place().
int Train(const Flags& flags);

}  // namespace mnist

#endif  // DDPRUN_WORKER_EXAMPLES_MNIST_TRAINER_H_
