// The command line of mnist_ddp.
#ifndef DDPRUN_WORKER_EXAMPLES_MNIST_FLAGS_H_
#define DDPRUN_WORKER_EXAMPLES_MNIST_FLAGS_H_

#include <cstdint>
#include <string>

namespace mnist {

struct Flags {
  std::string data = "tests/data/mnist";
  int epochs = 5;
  int batch_size = 64;  // of each worker
  double lr = 0.002;
  int checkpoint_every = 50;   // steps; 0: never
  int snapshot_every = 0;      // steps; 0: as often as costs next to nothing
  std::string checkpoint_dir;  // empty: no checkpoints
  std::string backend = "auto";
  std::uint64_t seed = 1;
  std::int64_t max_steps = 0;    // 0: no limit
  std::string step_log;          // empty: none
  std::string trace_samples;     // empty: no trace
  std::int64_t limit_train = 0;  // 0: all
};

// Returns true with `*flags` filled in, or false with the process's exit code in `*exit_code`
// after --help (0) or an error, which is printed (64).
bool ParseFlags(int argc, char** argv, Flags* flags, int* exit_code);

}  // namespace mnist

#endif  // DDPRUN_WORKER_EXAMPLES_MNIST_FLAGS_H_
