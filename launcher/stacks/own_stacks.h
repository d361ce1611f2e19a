// Stacks that a process writes itself, for where ddprun may not trace it: worker/contract/
// own_stacks.h. Programs of the C++ library have a handler for that from ddp::init() on, Python
// programs from their start.
//
// What it refuses to do: to send a signal to a process that does not show that it waits for it, or
// that is stopped. Trusts nothing of what the process has written.
#ifndef DDPRUN_LAUNCHER_STACKS_OWN_STACKS_H_
#define DDPRUN_LAUNCHER_STACKS_OWN_STACKS_H_

#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

#include "launcher/stacks/copied_stacks.h"

namespace ddprun::stacks {

struct OwnStacksLimits {
  // For a thread to answer; on a busy machine it may have to wait for a CPU. A thread in disk wait
  // is left out after the shorter time.
  std::chrono::milliseconds answer_wait{1000};
  std::chrono::milliseconds disk_wait{50};
  std::chrono::milliseconds reader_wait{500};  // for another reader
};

// `process` is one that may not be traced, with its threads and maps as seen from outside. Where it
// writes its stacks: they are in its threads, and its status is OK. Else nothing changes. `budget`:
// how many bytes of stacks may still be copied. Blocks for about the limits, at most until
// `deadline`; any thread.
void LetItWriteItsStacks(CopiedProcess* process, std::size_t* budget,
                         std::chrono::steady_clock::time_point deadline,
                         const OwnStacksLimits& limits = {});

// ---- the pure part ----

struct PythonDump {
  std::vector<PythonFrame> current;  // of the thread that got the signal; innermost first
  std::vector<std::vector<PythonFrame>> others;
};

// The text that faulthandler writes. Lines that are none of its own are skipped.
PythonDump ParsePythonDump(std::string_view text);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_OWN_STACKS_H_
