// mnist_ddp: the example of a real training program, under `ddprun` or torchrun.
//
//   ddprun --nproc-per-node 2 build/bin/mnist_ddp --epochs 3
#include "worker/examples/mnist/flags.h"
#include "worker/examples/mnist/trainer.h"

int main(int argc, char** argv) {
  mnist::Flags flags;
  int exit_code = 0;
  if (!mnist::ParseFlags(argc, argv, &flags, &exit_code)) return exit_code;
  return mnist::Train(flags);
}
