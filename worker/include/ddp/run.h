// The body of main() with errors ended well: reported once, by name, and without a hang.
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

// What run() would print of `error`, for programs that end in a way of their own. Where a
// collective failed it has the cause, for which it asks the other ranks: libtorch's exceptions out
// of backward() say only that a connection ended or that time was over. It may take a second.
//
//   } catch (const std::exception& e) {
//     std::cerr << ddp::explain(e) << std::endl;
//     std::_Exit(1);  // a static destructor that waits for a peer that has died would hang
//   }
//
// Call it where the Context still lives, or where `error` has ended its life.
std::string explain(const std::exception& error);

}  // namespace ddp

#endif  // DDP_RUN_H_
