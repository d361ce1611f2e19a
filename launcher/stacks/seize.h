// Stops processes for a moment, and copies the registers and stacks of all their threads.
//
// Any thread; blocks until about `deadline`. While a process writes its stacks itself
// (own_stacks.h), this may take SeizeOptions::patience longer. Each process has a tracer thread of
// its own, so that no process stays held: a tracee that never stopped (state D) is released only by
// the end of its tracer thread.
//
// To read a process's memory or its list of mappings, the kernel takes a lock (mmap_lock). A thread
// of the process may hold this lock while it waits for a disk or a file server. Such a process is
// given up after SeizeOptions::patience. Its tracer thread is left behind until the lock is free,
// and later calls for this process fail at once. The list of mappings is read first. So while
// ddprun waits for the lock, no thread is stopped yet, and the end of ddprun also ends this wait.
// The list is read again, with threads stopped, only if a thread's stack was mapped after the first
// reading.
//
// It never runs code in a traced process, never writes to it and never signals it. A process
// stopped by a signal stays stopped; a signal that arrives meanwhile is passed on. If ddprun is not
// allowed to trace a process, it asks the process to write its stacks itself: own_stacks.h.
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
  std::chrono::milliseconds stop_wait{50};           // time for a thread to stop; then the thread
                                                     // is skipped
  std::size_t stack_bytes = std::size_t{128} << 10;  // per thread
  std::size_t total_bytes = std::size_t{256}
                            << 20;           // in total; beyond it no more stacks are copied
  std::size_t threads = 2048;                // per process
  std::chrono::milliseconds patience{1000};  // time for a process whose memory is locked
  std::function<std::string(pid_t)> read_maps = ReadMaps;  // a test passes one that blocks
};

// Returns one entry for each of `pids`, in their order. Holds one process at a time, only while its
// stacks are copied, plus stop_wait in each scan for threads if a thread does not stop.
std::vector<CopiedProcess> CopyStacks(absl::Span<const pid_t> pids,
                                      std::chrono::steady_clock::time_point deadline,
                                      const SeizeOptions& options = {});

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_SEIZE_H_
