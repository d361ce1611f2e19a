// The body of main() with errors ended well: reported once, by name, and without a hang.
#ifndef DDP_RUN_H_
#define DDP_RUN_H_

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
