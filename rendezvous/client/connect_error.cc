#include "rendezvous/client/connect_error.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace ddprun {

std::string RootOfError(absl::string_view message) {
  const std::size_t colon = message.rfind(": ");
  if (colon != absl::string_view::npos) message.remove_prefix(colon + 2);
  return absl::AsciiStrToLower(message);
}

std::optional<std::string> TlsTrouble(absl::string_view message) {
  const auto has = [&](absl::string_view words) { return absl::StrContains(message, words); };
  if (SpeaksNoTls(message)) {
    return "it does not speak TLS: it was started without the credentials of this side, or is "
           "an older version";
  }
  if (has("Hostname Verification") || has("not in peer certificate") || has("Cannot check peer")) {
    return "its certificate is for another host: name this one in `ddprun certs DIR --host`";
  }
  if (has("certificate verify failed")) {
    return "its certificate has expired, or is not of the authority in --tls-ca";
  }
  if (has("Ssl handshake failed") || has("SSL_ERROR")) return std::string(message);
  return std::nullopt;
}

bool SpeaksNoTls(absl::string_view message) {
  return absl::StrContains(message, "wrong version number");
}

std::optional<std::string> SaidByRendezvous(absl::string_view message) {
  if (!absl::ConsumePrefix(&message, "this rendezvous ")) return std::nullopt;
  return std::string(message);
}

bool IsClosedByPeer(absl::string_view message) {
  return absl::StrContains(message, "Socket closed") ||
         absl::StrContains(message, "onnection reset");
}

}  // namespace ddprun
