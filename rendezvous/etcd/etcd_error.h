// What the failure of a call to etcd means. Internal to this folder. Pure.
#ifndef DDPRUN_RENDEZVOUS_ETCD_ETCD_ERROR_H_
#define DDPRUN_RENDEZVOUS_ETCD_ETCD_ERROR_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ddprun::etcd {

// Of a call that was sent to the member at `endpoint`: Aborted, Unknown, or another one, as
// Client::Transact has them. Aborted only where etcd's answer leaves no doubt.
absl::Status ErrorOf(const std::string& endpoint, const grpc::Status& status);

// etcd no longer knows the token that the call carried: ask for another one, and send it again.
bool IsTokenRefused(const grpc::Status& status);

// What we show when we connect.
enum class OurSide { kPlain, kTls, kTlsWithCertificate };

// Of a connection that was not made, from gRPC's words about it: Unauthenticated where the member
// is not whom our authority vouches for, else Aborted.
absl::Status NotConnected(const std::string& endpoint, absl::string_view message, OurSide side);

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_ETCD_ERROR_H_
