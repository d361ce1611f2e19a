// Translates gRPC's error texts about connections for people, because gRPC has no codes for these
// errors. Internal to this folder. Pure.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_CONNECT_ERROR_H_
#define DDPRUN_RENDEZVOUS_CLIENT_CONNECT_ERROR_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// gRPC's "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:29400: Failed to
// connect to remote host: Connection refused" as "connection refused".
std::string RootOfError(absl::string_view message);

// A TLS error in the text, for people; nullopt: none.
std::optional<std::string> TlsTrouble(absl::string_view message);

// True: the other side does not use TLS.
bool SpeaksNoTls(absl::string_view message);

// The rendezvous's own reason for not serving now, without the first words "this rendezvous":
// "stands by: the leader is at h2:29400". nullopt: the text does not begin with these words.
std::optional<std::string> SaidByRendezvous(absl::string_view message);

// True: the other side closed the connection instead of answering, as a server does that expects
// TLS.
bool IsClosedByPeer(absl::string_view message);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_CONNECT_ERROR_H_
