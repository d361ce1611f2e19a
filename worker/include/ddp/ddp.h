// Includes the whole ddp library: DistributedDataParallel training for libtorch programs in C++17
// or newer.
//
//   int main() {
//     return ddp::run([] {
//       ddp::Context ctx = ddp::init();
//       ddp::seed_everything(17);
//       auto net = std::make_shared<Net>();
//       net->to(ctx.device());
//       ddp::DistributedDataParallel<Net> model(ctx, net);
//       torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
//       for (...) {
//         model.zero_grad();
//         loss(model(input), target).backward();  // gradients are averaged over all ranks here
//         optimizer.step();
//       }
//       return 0;
//     });
//   }
#ifndef DDP_DDP_H_
#define DDP_DDP_H_

#include <ddp/checkpoint_parts.h>
#include <ddp/checkpointer.h>
#include <ddp/collectives.h>
#include <ddp/comm_hooks.h>
#include <ddp/context.h>
#include <ddp/data_parallel_options.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/distributed_sampler.h>
#include <ddp/errors.h>
#include <ddp/gather.h>
#include <ddp/main_first.h>
#include <ddp/output_tensors.h>
#include <ddp/run.h>
#include <ddp/state_dict.h>
#include <ddp/sync_batch_norm.h>
#include <ddp/verify.h>

#endif  // DDP_DDP_H_
