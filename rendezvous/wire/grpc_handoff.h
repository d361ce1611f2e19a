// Tells ThreadSanitizer what gRPC does: a reactor or a tag is handed to gRPC by one thread, and
// what becomes of it is told on others, after it. The order is made inside of a library that is not
// instrumented, so ThreadSanitizer cannot see it by itself. Without ThreadSanitizer this is
// nothing.
#ifndef DDPRUN_RENDEZVOUS_WIRE_GRPC_HANDOFF_H_
#define DDPRUN_RENDEZVOUS_WIRE_GRPC_HANDOFF_H_

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace ddprun::wire {

// Before an operation is started with `handed`.
inline void HandToGrpc([[maybe_unused]] void* handed) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(handed);
#endif
}

// First in each callback of `handed`, or when it comes out of a queue.
inline void TakeFromGrpc([[maybe_unused]] void* handed) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(handed);
#endif
}

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_GRPC_HANDOFF_H_
