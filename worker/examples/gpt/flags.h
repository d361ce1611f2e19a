// The command line of gpt_ddp.
#ifndef DDPRUN_WORKER_EXAMPLES_GPT_FLAGS_H_
#define DDPRUN_WORKER_EXAMPLES_GPT_FLAGS_H_

#include <cstdint>
#include <string>

#include "worker/examples/common/flags.h"

namespace gpt {

struct Flags : example::TrainingFlags {
  Flags() {
    data = "tests/data/text/gospels.txt";
    epochs = 10;
    batch_size = 16;
  }

  std::int64_t depth = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t context = 64;
  double dropout = 0.1;
  int accumulate = 1;  // batches per step, for each worker
  double clip = 1;     // 0: no clipping
  double weight_decay = 0.1;
  std::int64_t warm_up = 50;  // steps
  std::string precision = "auto";
  std::int64_t limit_text = 0;  // characters; 0: all
  std::int64_t sample = 200;    // characters; 0: none
  double temperature = 0.8;
};

// True: `*flags` has its values. False: --help was given (exit code 0), or an error was printed
// (64). `*exit_code` is then the exit code.
bool ParseFlags(int argc, char** argv, Flags* flags, int* exit_code);

}  // namespace gpt

#endif  // DDPRUN_WORKER_EXAMPLES_GPT_FLAGS_H_
