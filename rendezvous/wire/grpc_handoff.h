// Tells ThreadSanitizer about gRPC's synchronization. One thread hands a reactor or a tag to gRPC;
// later, another thread gets the result. gRPC synchronizes the two threads, but ThreadSanitizer
// cannot see it, because gRPC is not instrumented. Without ThreadSanitizer, these functions do
// nothing.
#ifndef DDPRUN_RENDEZVOUS_WIRE_GRPC_HANDOFF_H_
#define DDPRUN_RENDEZVOUS_WIRE_GRPC_HANDOFF_H_

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace ddprun::wire {

// Call it before an operation with `handed` is started.
inline void HandToGrpc([[maybe_unused]] void* handed) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(handed);
#endif
}

// Call it first in each callback of `handed`, or when `handed` comes out of a queue.
inline void TakeFromGrpc([[maybe_unused]] void* handed) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(handed);
#endif
}

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_GRPC_HANDOFF_H_
