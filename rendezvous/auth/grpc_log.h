// gRPC's own log. By default gRPC prints an error to stderr for each hostile client.
//
// Process-wide; any thread.
#ifndef DDPRUN_RENDEZVOUS_AUTH_GRPC_LOG_H_
#define DDPRUN_RENDEZVOUS_AUTH_GRPC_LOG_H_

#include <functional>
#include <string>

namespace ddprun::auth {

// Stops gRPC's printing, unless the environment sets GRPC_VERBOSITY or GRPC_TRACE. Idempotent.
void QuietGrpc();

// The same, and calls `listener` with the reason of each failed TLS handshake. Replaces the
// previous listener. `listener` must not block, and must not call the functions of this file.
void OnTlsHandshakeFailed(std::function<void(const std::string& reason)> listener);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_GRPC_LOG_H_
