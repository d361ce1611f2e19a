// gpt_ddp: trains a character-level transformer, under `ddprun` or torchrun.
//
//   ddprun --nproc-per-node 2 build/bin/gpt_ddp --max-steps 300
#include "worker/examples/gpt/flags.h"
#include "worker/examples/gpt/trainer.h"

int main(int argc, char** argv) {
  gpt::Flags flags;
  int exit_code = 0;
  if (!gpt::ParseFlags(argc, argv, &flags, &exit_code)) return exit_code;
  return gpt::Train(flags);
}
