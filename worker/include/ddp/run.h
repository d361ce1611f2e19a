// Runs the body of main(), and ends the process after an error: reported once, by name, without a
// hang.
#ifndef DDP_RUN_H_
#define DDP_RUN_H_

#include <ddp/context.h>

#include <exception>
#include <functional>
#include <string>

namespace ddp {

// Calls `body` on this thread and returns its result, the exit code of the process.
//
// When `body` throws, run() does not return. It
//   - writes one line to stderr: `[rank 3] error: <what()>` (for an AgreedError only the lowest
//     failing rank does, so that the job prints the error once),
//   - tells the agent (`ERROR=kind text` on the control socket; kind is collective, bind,
//     checkpoint or user; for an AgreedError, user on the rank that prints it and collective, the
//     kind of a victim, on all others),
//   - writes $TORCHELASTIC_ERROR_FILE, if set, in the format of torchrun
//     (torch/distributed/elastic/multiprocessing/errors/error_handler.py),
//   - and ends the process with code 1 by std::_Exit, after flushing stdout: no static destructor
//     runs, because one that waits for a peer that has died would hang.
//
// Create the Context inside `body`. Call run() once, from the main thread.
int run(const std::function<int()>& body);

// Joins the job as ddp::init(options) does, and calls `body` with the Context, on this thread.
// Returns the result of `body`, the exit code of the process.
//
// One call of `body` is one generation of the job. When another rank dies, or a node is lost or
// joins, ddprun asks this process to leave the generation. Every pending collective fails, every
// later one throws, the exception unwinds `body`, and the Context is destroyed. Then this process
// waits for its place in the next generation and joins it, with its new rank and world size, and
// `body` is called again.
//
// Loaded libraries, data, and whatever the program has made outside of `body` stay. Make model,
// optimizer, sampler, DistributedDataParallel and Checkpointer inside `body`, and begin with
// Checkpointer::load_latest(): after an exception these objects are in the middle of a step.
// Without a state to load, training begins at step 0.
//
//   const Dataset data = Load();
//   return ddp::run_in_place([&](ddp::Context& ctx) { return Train(ctx, data); });
//
// `body` must let exceptions of collectives pass, and must keep nothing of `ctx` that outlives it.
// Rank, world size and the rest come from `ctx`: the environment of the process keeps the values of
// the first generation. From the second call on, stdout and stderr are the log files of the current
// generation.
//
// An exception that is no peer's fault ends the process as ddp::run() does. So does a failed
// collective if ddprun does not ask to leave within 5 s. If `body` does not return or throw in time
// (`restart.in_place_timeout`, 2 s), ddprun ends the process and starts another one. With nccl on
// libtorch before 2.7, and without ddprun, this is ddp::run() with a Context.
//
// Call it once, from the main thread. A warm standby waits in it.
int run_in_place(const std::function<int(Context&)>& body, const Options& options = Options());

// The text that run() would print for `error`, for programs that end in their own way. If a
// collective failed, the text has the cause, for which explain() asks the other ranks: the
// exceptions of libtorch's backward() say only that a connection ended or that time was over. It
// may take a second.
//
//   } catch (const std::exception& e) {
//     std::cerr << ddp::explain(e) << std::endl;
//     std::_Exit(1);  // a static destructor that waits for a peer that has died would hang
//   }
//
// Call it while the Context lives, or after `error` has destroyed it.
std::string explain(const std::exception& error);

}  // namespace ddp

#endif  // DDP_RUN_H_
