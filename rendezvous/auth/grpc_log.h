// What gRPC has to say of itself: by default it prints errors to stderr, one for each hostile
// client.
//
// Process-wide; any thread.
#ifndef DDPRUN_RENDEZVOUS_AUTH_GRPC_LOG_H_
#define DDPRUN_RENDEZVOUS_AUTH_GRPC_LOG_H_

#include <functional>
#include <string>

namespace ddprun::auth {

// Keeps gRPC from printing, unless the environment asks for it by GRPC_VERBOSITY or GRPC_TRACE.
// Idempotent.
void QuietGrpc();

// The same, and calls `listener`, instead of the one before, with the reason of each TLS handshake
// that failed. It must not block, nor call this file.
void OnTlsHandshakeFailed(std::function<void(const std::string& reason)> listener);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_GRPC_LOG_H_
