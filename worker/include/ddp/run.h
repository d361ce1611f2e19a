// Functions that run the body of main(). After an error they report it once, with the name of the
// failed rank, and end the process without a hang.
#ifndef DDP_RUN_H_
#define DDP_RUN_H_

#include <ddp/context.h>

#include <exception>
#include <functional>
#include <string>

namespace ddp {

// Calls `body` on this thread and returns its result, which is the exit code of the process.
//
// run() does not return if `body` throws. It also does not return if the library had to abort the
// collectives on this rank's GPU because another rank was lost. Then run()
//   - flushes stdout, and writes one line to stderr: `[rank 3] error: <what()>`. For an AgreedError
//     (all ranks throw it with the same text: <ddp/errors.h>) only the lowest failing rank writes
//     it, so the job prints the error once;
//   - tells the agent: `ERROR=kind text` on the control socket. The kinds are collective, bind,
//     folder, checkpoint, state and user. For an AgreedError, only the lowest failing rank sends
//     the real kind. The other ranks send `collective`, the kind of a victim (a worker that another
//     worker's failure ends);
//   - writes the file $TORCHELASTIC_ERROR_FILE, if that is set, in torchrun's format
//     (torch/distributed/elastic/multiprocessing/errors/error_handler.py);
//   - ends the process with std::_Exit. The exit code is 1; on the lowest failing rank of a
//     FolderTakenError it is 77. Static destructors do not run, because a destructor that waits for
//     a dead rank would hang.
//
// Make the Context inside `body`. Call run() once, from the main thread.
int run(const std::function<int()>& body);

// Joins the job like ddp::init(options), and calls `body` with the Context, on this thread. Returns
// the result of `body`, which is the exit code of the process.
//
// One call of `body` is one generation of the job (one group of ranks that train together). When
// another rank dies, or a node is lost or joins, ddprun asks this process to leave the generation.
// Then pending collectives fail and later ones throw. The exception unwinds `body`, and the Context
// is destroyed. If this process is still joining the generation, it stops joining (not with nccl).
// The process waits for its place in the next generation, joins it with its new rank and world
// size, and calls `body` again.
//
// Everything that the program made outside of `body` stays, for example loaded libraries and data.
// Make model, optimizer, sampler, DistributedDataParallel and Checkpointer inside `body`, because
// an exception leaves these objects in the middle of a step. Then call Checkpointer::load_latest().
// If there is no state to load, training begins at step 0.
//
//   const Dataset data = Load();
//   return ddp::run_in_place([&](ddp::Context& ctx) { return Train(ctx, data); });
//
// `body` must not catch exceptions of collectives, and after it ends, nothing may refer to `ctx`.
// Take rank and world size from `ctx`: the process's environment keeps the values of the first
// generation. From the second call on, stdout and stderr go to the log files of the current
// generation.
//
// If `body` or joining a generation throws, the process leaves the generation and waits for the
// next one, if ddprun asks for this. In two cases the process ends instead, as in ddp::run():
// - No other rank caused the exception, and ddprun has not asked this process to leave before.
// - Another rank caused it, and ddprun does not ask this process to leave within 5 s.
// If ddprun asks, and `body` does not return or throw in time (`restart.in_place_timeout`, 2 s by
// default), ddprun ends the process and starts another one. With nccl on a libtorch before
// 2.7, whose NCCL group does not report errors, ddprun always does so.
//
// Without ddprun this function does the same as ddp::run() with a Context.
//
// Call it once, from the main thread. A warm standby (docs/fast-restarts.md) waits in it.
int run_in_place(const std::function<int(Context&)>& body, const Options& options = Options());

// For programs that do not use run(). Returns the text that run() would print for `error`, without
// the prefix `[rank 3] error: `. If a collective failed, the text has the cause. The exceptions of
// libtorch's backward() only say that a connection ended or timed out, so explain() asks the other
// ranks for the cause. That may take a second.
//
//   } catch (const std::exception& e) {
//     std::cerr << ddp::explain(e) << std::endl;
//     std::_Exit(1);  // a static destructor that waits for a peer that has died would hang
//   }
//
// Call it while the Context lives, or after the exception has destroyed the Context.
std::string explain(const std::exception& error);

}  // namespace ddp

#endif  // DDP_RUN_H_
