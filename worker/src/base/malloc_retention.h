// malloc keeps freed memory in the process instead of returning it to the kernel.
#ifndef DDPRUN_WORKER_SRC_BASE_MALLOC_RETENTION_H_
#define DDPRUN_WORKER_SRC_BASE_MALLOC_RETENTION_H_

#include <cstddef>
#include <functional>

namespace ddp::internal {

// From now on, the C library keeps what this process frees for its next allocations, instead of
// giving it back to the system, and asks the kernel for large pages for the first 256 MiB of it.
// Returns whether it does.
//
// Each training step frees its activations and gradients, and the next one allocates the same
// sizes: what was given back has to be taken again, page by page, each filled with zeros by the
// kernel. That was 14 % of the computing of a small network (docs/internals/benchmarks.md). The
// most that the process ever used stays what it is.
//
// Does nothing where the environment, which `get_environment` looks up, sets the C library's own
// variables for it (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, MALLOC_MMAP_MAX_,
// MALLOC_TOP_PAD_, glibc.malloc in GLIBC_TUNABLES), or where the C library is not glibc. Another
// allocator that was preloaded (jemalloc, tcmalloc) has its own settings, and is not affected.
bool RetainFreedMemory(const std::function<const char*(const char* name)>& get_environment);

// After RetainFreedMemory(), for a process that has time: takes `bytes` of memory from the system,
// for what the process allocates next, and moves what it has allocated to large pages. As far as
// there is memory; before Linux 5.14 and 6.1 not at all.
void TakeMemoryAhead(std::size_t bytes);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_MALLOC_RETENTION_H_
