// Stacks that a process writes itself, for where ddprun may not trace it: worker/contract/
// own_stacks.h. Programs of the C++ library have a handler for that from ddp::init() on, Python
// programs from their start.
//
// Sends no signal to a process that is stopped, does not catch the signal, or has no such memfd.
// Validates everything that the process has written.
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
  std::chrono::milliseconds reader_wait{500};  // for the lock, while another reader has it
};

// Asks a process that may not be traced to write its stacks. `process` has its threads and maps as
// seen from outside, and is not OK. If at least one thread answers, the stacks are put into
// `process` and its status is OK; else it stays as it was. `budget`: bytes of stacks that may still
// be copied. Any thread; blocks for about the limits, at most until `deadline`.
void CollectOwnStacks(CopiedProcess* process, std::size_t* budget,
                      std::chrono::steady_clock::time_point deadline,
                      const OwnStacksLimits& limits = {});

// ---- the pure part ----

struct PythonDump {
  std::vector<PythonFrame> current;  // of the thread that got the signal; innermost first
  std::vector<std::vector<PythonFrame>> others;
};

// The text that faulthandler writes. Other lines are skipped.
PythonDump ParsePythonDump(std::string_view text);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_OWN_STACKS_H_
