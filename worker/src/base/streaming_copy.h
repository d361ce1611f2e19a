// A copy of memory past the cache, for what is written now and not looked at again soon.
#ifndef DDPRUN_WORKER_SRC_BASE_STREAMING_COPY_H_
#define DDPRUN_WORKER_SRC_BASE_STREAMING_COPY_H_

#include <cstddef>

namespace ddp::internal {

// As std::memcpy. An ordinary write of memory first reads it into the cache, which for a state of
// many GB is a third of all that the memory has to do; this does not where the CPU can (x86-64).
// The C library does the same, but only for pieces that are larger than the cache. What another
// thread is to see is visible when this returns.
void StreamingCopy(void* to, const void* from, std::size_t size);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_STREAMING_COPY_H_
