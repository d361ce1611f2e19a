// What gRPC's words about a connection mean for a person: it has no codes for it. Internal to this
// folder. Pure.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_CONNECT_ERROR_H_
#define DDPRUN_RENDEZVOUS_CLIENT_CONNECT_ERROR_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// gRPC's "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:29400: Failed to
// connect to remote host: Connection refused" as "connection refused".
std::string RootOfError(absl::string_view message);

// What is wrong with TLS, if anything is.
std::optional<std::string> TlsTrouble(absl::string_view message);

// The other side has answered TLS with something else.
bool SpeaksNoTls(absl::string_view message);

// What the rendezvous itself has said of why it does not serve now, to go after its name: "stands
// by: the leader is at h2:29400". nullopt: these are gRPC's words.
std::optional<std::string> SaidByRendezvous(absl::string_view message);

// The other side closed the connection instead of answering, as one that expects TLS does.
bool IsClosedByPeer(absl::string_view message);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_CONNECT_ERROR_H_
