// Tells ThreadSanitizer what gRPC does: a reactor is handed to gRPC by one thread, and its
// callbacks come on others, after it. The order is made inside of a library that is not
// instrumented, so ThreadSanitizer cannot see it by itself. Without ThreadSanitizer this is
// nothing.
#ifndef DDPRUN_RENDEZVOUS_WIRE_GRPC_HANDOFF_H_
#define DDPRUN_RENDEZVOUS_WIRE_GRPC_HANDOFF_H_

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace ddprun::wire {

// Before an operation is started on `reactor`.
inline void HandToGrpc([[maybe_unused]] void* reactor) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(reactor);
#endif
}

// First in each callback of `reactor`.
inline void TakeFromGrpc([[maybe_unused]] void* reactor) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(reactor);
#endif
}

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_GRPC_HANDOFF_H_
