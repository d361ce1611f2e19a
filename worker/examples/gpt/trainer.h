// The training of gpt_ddp, from joining the job to the final text of the model.
#ifndef DDPRUN_WORKER_EXAMPLES_GPT_TRAINER_H_
#define DDPRUN_WORKER_EXAMPLES_GPT_TRAINER_H_

#include "worker/examples/gpt/flags.h"

namespace gpt {

// Returns the exit code, or ends the process, like ddp::run_in_place().
int Train(const Flags& flags);

}  // namespace gpt

#endif  // DDPRUN_WORKER_EXAMPLES_GPT_TRAINER_H_
