// Holds processes for a moment, and copies the registers and stacks of all their threads.
//
// Any thread may call it; it blocks until `deadline` at the most. Each process is copied by a
// thread of its own: a tracee that never stopped (state D) can be let go in no other way than by
// the end of its tracer's thread, so that nothing stays held whatever happens.
//
// To read a process's memory or its list of mappings the kernel takes a lock (mmap_lock). A thread
// of the process that waits for a disk or a file server may have it. Such a process is given up
// after SeizeOptions::patience, its thread is left behind until the lock is free, and later calls
// say at once that they cannot copy it. The list of mappings comes first, before anything is held:
// whoever waits for that can be killed, so that this process can end meanwhile.
//
// What it refuses to do: to run anything in a process that it may trace, to write to it, to send it
// a signal. A process that a signal has stopped stays stopped; a signal that comes meanwhile is
// passed on. One that it may not trace is asked to write its stacks itself: own_stacks.h.
#ifndef DDPRUN_LAUNCHER_STACKS_SEIZE_H_
#define DDPRUN_LAUNCHER_STACKS_SEIZE_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "launcher/stacks/copied_stacks.h"
#include "launcher/stacks/process_facts.h"

namespace ddprun::stacks {

struct SeizeOptions {
  std::chrono::milliseconds stop_wait{50};           // for a thread to stop; then it is left out
  std::size_t stack_bytes = std::size_t{128} << 10;  // of each thread
  std::size_t total_bytes = std::size_t{256} << 20;  // of all; beyond it no more stacks are copied
  std::size_t threads = 2048;                        // of each process
  std::chrono::milliseconds patience{1000};          // with a process whose memory is locked
  std::function<std::string(pid_t)> read_maps = ReadMaps;  // a test has one that blocks
};

// One entry for each of `pids`, in their order. One after the other is held, none for longer than
// it takes to copy its stacks, and stop_wait where a thread does not stop.
std::vector<CopiedProcess> CopyStacks(absl::Span<const pid_t> pids,
                                      std::chrono::steady_clock::time_point deadline,
                                      const SeizeOptions& options = {});

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_SEIZE_H_
