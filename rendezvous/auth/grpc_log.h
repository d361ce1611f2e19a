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

// The same. From now on `listener` gets the reason of each failed TLS handshake, unless the
// environment sets one of these variables. Replaces the previous listener. `listener` is called on
// gRPC's threads. It must not block, and must not call the functions of this file.
void OnTlsHandshakeFailed(std::function<void(const std::string& reason)> listener);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_GRPC_LOG_H_
