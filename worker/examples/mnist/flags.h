// The command line of mnist_ddp.
#ifndef DDPRUN_WORKER_EXAMPLES_MNIST_FLAGS_H_
#define DDPRUN_WORKER_EXAMPLES_MNIST_FLAGS_H_

#include <cstdint>

#include "worker/examples/common/flags.h"

namespace mnist {

struct Flags : example::TrainingFlags {
  Flags() { data = "tests/data/mnist"; }

  std::int64_t limit_train = 0;  // 0: all
};

// True: `*flags` has its values. False: --help was given (exit code 0), or an error was printed
// (64). `*exit_code` is then the exit code.
bool ParseFlags(int argc, char** argv, Flags* flags, int* exit_code);

}  // namespace mnist

#endif  // DDPRUN_WORKER_EXAMPLES_MNIST_FLAGS_H_
