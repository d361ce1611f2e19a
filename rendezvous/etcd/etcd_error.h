// What the failure of a call to etcd means. Internal to this folder. Pure.
#ifndef DDPRUN_RENDEZVOUS_ETCD_ETCD_ERROR_H_
#define DDPRUN_RENDEZVOUS_ETCD_ETCD_ERROR_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ddprun::etcd {

// The error of a call that was sent to the member at `endpoint`: Aborted, Unknown or another one,
// with the meanings of Client::Transact. Aborted only if etcd's answer leaves no doubt.
absl::Status ErrorOf(const std::string& endpoint, const grpc::Status& status);

// etcd no longer knows the call's token: get another token, and send the call again.
bool IsTokenRefused(const grpc::Status& status);

// The credentials that this side shows when it connects.
enum class OurSide { kPlain, kTls, kTlsWithCertificate };

// The error of a failed attempt to connect, from gRPC's message. Unauthenticated: the member's
// certificate is not trusted, or this side uses TLS and the member does not. Else Aborted.
absl::Status NotConnected(const std::string& endpoint, absl::string_view message, OurSide side);

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_ETCD_ERROR_H_
