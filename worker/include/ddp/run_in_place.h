// The body of main() for a process that outlives the end of its peers.
#ifndef DDP_RUN_IN_PLACE_H_
#define DDP_RUN_IN_PLACE_H_

#include <ddp/context.h>

#include <functional>

namespace ddp {

// Joins the job as ddp::init(options) does and calls `body` with its Context, on this thread.
// Returns what `body` returns, the exit code of the process.
//
// One call of `body` is one generation of the job. When another rank dies, a node is lost or a new
// one comes, ddprun asks this process to leave the generation: every collective under way fails and
// every later one throws, the exception unwinds `body`, and the Context is taken down. Then this
// process waits for its place in the next generation, joins that, with its new rank and world size,
// and `body` is called again. So loaded libraries, data, and what the program has made outside of
// `body` stay. What trains does not: make model, optimizer, sampler, DistributedDataParallel and
// Checkpointer in `body`, and begin with Checkpointer::load_latest(); after an exception they are
// half of a step, and where there is no state to load the training begins anew.
//
//   const Dataset data = Load();
//   return ddp::run_in_place([&](ddp::Context& ctx) { return Train(ctx, data); });
//
// `body` must let exceptions of collectives pass, and must hold nothing of `ctx` that outlives it.
// What is this generation's comes from `ctx`: the environment of the process keeps the values of
// the first one. From the second call on, stdout and stderr are the log files of that generation.
//
// An exception that is no peer's fault ends the process as ddp::run() does. So does one of a failed
// collective when ddprun does not ask to leave within 5 s. Where `body` does not return or throw in
// time (`restart.in_place_timeout`, 2 s) ddprun ends the process, and starts another one. With
// nccl, and without ddprun, this is ddp::run() with a Context.
//
// Call it once, from the main thread; a warm standby waits in it.
int run_in_place(const std::function<int(Context&)>& body, const Options& options = Options());

}  // namespace ddp

#endif  // DDP_RUN_IN_PLACE_H_
