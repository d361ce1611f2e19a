// Runs the body of main(). After an error it reports the error once, by name, and ends the process
// without hanging.
#ifndef DDP_RUN_H_
#define DDP_RUN_H_

#include <ddp/context.h>

#include <exception>
#include <functional>
#include <string>

namespace ddp {

// Calls `body` on this thread and returns its result, the exit code of the process.
//
// When `body` throws, or returns after the group was lost (the collectives of the GPU were aborted
// because a rank was lost), run() does not return. It
//   - writes one line to stderr: `[rank 3] error: <what()>`. For an AgreedError only the lowest
//     failing rank does, so that the job prints the error once;
//   - tells the agent: `ERROR=kind text` on the control socket. Kinds: collective, bind, folder,
//     checkpoint, state, user. For an AgreedError, all ranks except the lowest failing one send
//     collective, the kind of a victim;
//   - writes $TORCHELASTIC_ERROR_FILE, if set, in the format of torchrun
//     (torch/distributed/elastic/multiprocessing/errors/error_handler.py);
//   - flushes stdout, and ends the process by std::_Exit with code 1 (77 on the lowest failing rank
//     of a FolderTakenError). No static destructor runs, because a destructor that waits for a dead
//     peer would hang.
//
// Create the Context inside `body`. Call run() once, from the main thread.
int run(const std::function<int()>& body);

// Joins the job like ddp::init(options), and calls `body` with the Context, on this thread. Returns
// the result of `body`, the exit code of the process.
//
// One call of `body` is one generation of the job. When another rank dies, or a node is lost or
// joins, ddprun asks this process to leave the generation: pending collectives fail, later ones
// throw, the exception unwinds `body`, and the Context is destroyed. Then this process waits for
// its place in the next generation, joins it with its new rank and world size, and calls `body`
// again.
//
// Everything made outside of `body` stays: loaded libraries, data. Make model, optimizer, sampler,
// DistributedDataParallel and Checkpointer inside `body`, and begin with
// Checkpointer::load_latest(): after an exception these objects are in the middle of a step.
// Without a state to load, training begins at step 0.
//
//   const Dataset data = Load();
//   return ddp::run_in_place([&](ddp::Context& ctx) { return Train(ctx, data); });
//
// `body` must let exceptions of collectives pass, and must keep nothing that refers to `ctx` after
// it returns. Take rank and world size from `ctx`: the process's environment keeps the values of
// the first generation. From the second call on, stdout and stderr are the log files of the present
// generation.
//
// An exception that no peer caused ends the process like ddp::run(). So does a failed collective if
// ddprun does not ask to leave within 5 s. If `body` does not return or throw in time
// (`restart.in_place_timeout`, 2 s), ddprun ends the process and starts another one. Without
// ddprun, or with nccl on a libtorch whose NCCL group does not report errors (before 2.7), this is
// ddp::run() with a Context.
//
// Call it once, from the main thread. A warm standby waits inside of it.
int run_in_place(const std::function<int(Context&)>& body, const Options& options = Options());

// Returns the text that run() would print for `error`, without the prefix `[rank 3] error: `, for
// programs that end in their own way. If a collective failed, the text has the cause, for which
// explain() asks the other ranks: the exceptions of libtorch's backward() only say that a
// connection ended or timed out. May take a second.
//
//   } catch (const std::exception& e) {
//     std::cerr << ddp::explain(e) << std::endl;
//     std::_Exit(1);  // a static destructor that waits for a peer that has died would hang
//   }
//
// Call it while the Context lives, or after the exception has unwound it.
std::string explain(const std::exception& error);

}  // namespace ddp

#endif  // DDP_RUN_H_
