// Stacks that a process writes itself, because ddprun is not allowed to trace it
// (worker/contract/own_stacks.h). Programs with the C++ library have a signal handler for this from
// ddp::init() on; Python programs have one from their start, or from their first report
// (`import ddprun`) on if Python skips ddprun's sitecustomize.
//
// No signal is sent to a process that is stopped, does not catch the signal, or has no memfd for
// its stacks. All data from the process is validated.
#ifndef DDPRUN_LAUNCHER_STACKS_OWN_STACKS_H_
#define DDPRUN_LAUNCHER_STACKS_OWN_STACKS_H_

#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

#include "launcher/stacks/copied_stacks.h"

namespace ddprun::stacks {

struct OwnStacksLimits {
  // Time limit for a thread's answer; on a busy machine the thread may have to wait for a CPU. A
  // thread in disk wait is skipped after disk_wait.
  std::chrono::milliseconds answer_wait{1000};
  std::chrono::milliseconds disk_wait{50};
  std::chrono::milliseconds reader_wait{500};  // for the lock of another reader
};

// Asks a process that ddprun is not allowed to trace to write its stacks. On entry `process` has
// the threads and maps from /proc, and a status that is not OK. If at least one thread answers,
// `process` gets the stacks and the status OK; else it is unchanged. `budget`: bytes of stacks that
// may still be copied. Any thread; blocks for about the limits, at most until `deadline`.
void CollectOwnStacks(CopiedProcess* process, std::size_t* budget,
                      std::chrono::steady_clock::time_point deadline,
                      const OwnStacksLimits& limits = {});

// ---- the pure part ----

struct PythonDump {
  std::vector<PythonFrame> current;  // of the thread that got the signal; innermost first
  std::vector<std::vector<PythonFrame>> others;
};

// Parses the text that faulthandler writes. Skips other lines.
PythonDump ParsePythonDump(std::string_view text);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_OWN_STACKS_H_
