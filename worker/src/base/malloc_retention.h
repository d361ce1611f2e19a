// Makes malloc keep freed memory in the process instead of returning it to the kernel.
#ifndef DDPRUN_WORKER_SRC_BASE_MALLOC_RETENTION_H_
#define DDPRUN_WORKER_SRC_BASE_MALLOC_RETENTION_H_

#include <cstddef>
#include <functional>

namespace ddp::internal {

// After this call the C library keeps freed memory for later allocations. This call also asks the
// kernel for huge pages for the next 256 MiB that malloc gives out. False: nothing has changed.
//
// Each training step frees its activations and gradients, and the next step allocates the same
// sizes. If malloc returns the memory to the kernel, the process must fault it in again page by
// page, and the kernel zeroes each page. That took 14 % of the compute time of a small network
// (docs/internals/benchmarks.md). The peak memory of the process does not change.
//
// Does nothing if the C library is not glibc, or if the environment (`get_environment`) sets one of
// glibc's variables for it: MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, MALLOC_MMAP_MAX_,
// MALLOC_TOP_PAD_, or glibc.malloc in GLIBC_TUNABLES. Has no effect on a preloaded allocator
// (jemalloc, tcmalloc).
bool RetainFreedMemory(const std::function<const char*(const char* name)>& get_environment);

// For a process that waits anyway (a standby), after RetainFreedMemory(). Faults in `bytes` of
// memory for the next allocations (needs Linux 5.14), and moves existing allocations to huge pages
// as far as memory is free (needs Linux 6.1).
void TakeMemoryAhead(std::size_t bytes);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_MALLOC_RETENTION_H_
