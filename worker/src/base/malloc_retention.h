// Makes malloc keep freed memory in the process instead of returning it to the kernel.
#ifndef DDPRUN_WORKER_SRC_BASE_MALLOC_RETENTION_H_
#define DDPRUN_WORKER_SRC_BASE_MALLOC_RETENTION_H_

#include <cstddef>
#include <functional>

namespace ddp::internal {

// From now on the C library keeps freed memory for later allocations, and asks the kernel for huge
// pages for the first 256 MiB of it. Returns whether it does.
//
// Each training step frees its activations and gradients, and the next one allocates the same
// sizes. Returned memory must be faulted in again page by page, each page zeroed by the kernel.
// That took 14 % of the compute time of a small network (docs/internals/benchmarks.md). The peak
// memory of the process does not change.
//
// Does nothing if the environment (`get_environment`) sets the C library's own variables for it
// (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, MALLOC_MMAP_MAX_, MALLOC_TOP_PAD_, glibc.malloc
// in GLIBC_TUNABLES), or if the C library is not glibc. A preloaded allocator (jemalloc, tcmalloc)
// has its own settings and is not affected.
bool RetainFreedMemory(const std::function<const char*(const char* name)>& get_environment);

// After RetainFreedMemory(), for a process that has time: faults in `bytes` of memory for the next
// allocations, and moves existing allocations to huge pages, as far as memory is free. Needs Linux
// 5.14 for the first part and 6.1 for the second.
void TakeMemoryAhead(std::size_t bytes);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_MALLOC_RETENTION_H_
